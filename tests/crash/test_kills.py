"""A process killed after, and before, every commit of a run: nothing is lost and nothing happens twice."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SUPERVISOR = Path(__file__).parent / "supervisor.py"


def killed_everywhere(tmp_path: Path, agent: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    done = subprocess.run(
        [sys.executable, str(SUPERVISOR), str(tmp_path), agent],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["whole"], told["lives"]


def divergences(whole: dict, life: dict) -> list[str]:  # pyright: ignore
    """How a killed and restarted run differs from one that was never killed, beyond what a crash may change."""
    if "error" in life:
        return [str(life["error"])]
    found: list[str] = []
    if life["result"] != whole["result"]:
        found.append(f"result {life['result']!r}, not {whole['result']!r}")
    doubled = [e for e, n in Counter(life["effects"]).items() if n > 1 and e.startswith("pay")]
    if doubled:
        found.append(f"done twice: {doubled}")
    interrupted = sum(len(t["interrupted"]) for t in life["threads"].values())
    lost = set(whole["effects"]) - set(life["effects"])
    if len(lost) > interrupted:
        found.append(f"never done and not reported: {lost}")
    if (told := _shape(life)) != (expected := _shape(whole)):
        found.append(f"threads {told}, not {expected}")
    if life["acknowledged"] and not any("extra" in t["messages"] for t in life["threads"].values()):
        found.append("an acknowledged message is lost")
    if life["reserved"]:
        found.append(f"{life['reserved']} tokens stay reserved")
    return found


def _shape(life: dict) -> list[tuple[str, str, list[str]]]:  # pyright: ignore
    """Agents, statuses and calls. Ids are left out: they name a place in the log, which recovery moves on."""
    return sorted((t["agent"], t["status"], sorted(tool for tool, _ in t["calls"])) for t in life["threads"].values())


@pytest.mark.spec("RUN-01", "RUN-11")
@pytest.mark.parametrize("agent", ["single", "lead"])
def test_a_run_killed_around_every_commit_ends_as_if_it_had_not_been(
    tmp_path: Path, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, lives = killed_everywhere(tmp_path, agent)

    bad = {f"{life['moment']} {life['at']}": found for life in lives if (found := divergences(whole, life))}
    kills = sum(bool(life["killed"]) for life in lives)
    repeated = sum(int(str(life.get("asked", 0))) - int(str(whole["asked"])) for life in lives)
    with capsys.disabled():
        print(
            f"\n{agent}: {kills} kills, {kills} restarts, {len(bad)} divergences, {repeated / kills:.2f} requests repeated a kill"
        )
    assert bad == {}
    assert kills >= 10
    assert repeated / kills <= 0.5
