"""A process killed after, and before, every commit of a run: nothing is lost and nothing happens twice."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from crash.scenario import CAP
from crash.told import Life, Told

SUPERVISOR = Path(__file__).parent / "supervisor.py"


def killed_everywhere(folder: Path, agent: str) -> Told:
    done = subprocess.run(
        [sys.executable, str(SUPERVISOR), str(folder), agent], capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout, type=Told)


def divergences(whole: Life, life: Life) -> list[str]:
    """How a killed and restarted run differs from one that was never killed, beyond what a crash may change."""
    if life.error:
        return [life.error]
    found: list[str] = []
    if life.result != whole.result:
        found.append(f"result {life.result!r}, not {whole.result!r}")
    if doubled := [e for e, n in Counter(life.effects).items() if n > 1 and e.startswith("pay")]:
        found.append(f"done twice: {doubled}")
    lost = set(whole.effects) - set(life.effects)
    if len(lost) > sum(t.interrupted for t in life.threads):
        found.append(f"never done and not reported: {lost}")
    if (told := _shape(life)) != (expected := _shape(whole)):
        found.append(f"threads {told}, not {expected}")
    if life.acknowledged and not any("extra" in t.messages for t in life.threads):
        found.append("an acknowledged message is lost")
    return [*found, *miscounted(life)]


def miscounted(life: Life) -> list[str]:
    """What is wrong with the money: something passed its cap, was not counted, or stays set aside for ever."""
    found = list(life.ledger)
    if life.reserved:
        found.append(f"{life.reserved} tokens stay reserved")
    if life.exceeded:
        found.append(f"{life.spent} tokens were spent, more than the cap")
    if life.spent < life.sent:
        found.append(f"{life.sent} tokens were sent and {life.spent} tokens counted")
    return found


def _shape(life: Life) -> list[tuple[str, str, list[str]]]:
    """Agents, statuses and calls. Ids are left out: they name a place in the log, which recovery moves on."""
    return sorted((t.agent, t.status, t.calls) for t in life.threads)


@pytest.mark.timeout(900)
@pytest.mark.spec("RUN-01", "RUN-11", "SUB-07")
@pytest.mark.parametrize("agent", ["single", "lead"])
def test_a_run_killed_around_every_commit_ends_as_if_it_had_not_been(
    memory_folder: Path, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = killed_everywhere(memory_folder, agent)
    assert told.whole.error == ""

    bad = {f"{life.moment} {life.at}": found for life in told.lives if (found := divergences(told.whole, life))}
    kills = sum(life.killed for life in told.lives)
    repeated = sum(life.asked - told.whole.asked for life in told.lives) / kills
    with capsys.disabled():
        print(f"\n{agent}: {kills} kills, {kills} restarts, {len(bad)} divergences, {repeated:.2f} requests repeated")
    assert bad == {}
    assert kills >= 10
    assert repeated <= 0.5


@pytest.mark.timeout(900)
@pytest.mark.spec("RUN-08", "SUB-16")
def test_ten_children_on_a_budget_for_three_keep_it_however_often_they_are_killed(
    memory_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between what was set aside and what came back too: that is charged, and nothing stays set aside."""
    told = killed_everywhere(memory_folder, "broke")
    whole = told.whole
    served = Counter((t.agent, t.status) for t in whole.threads)

    bad = {
        f"{life.moment} {life.at}": found
        for life in told.lives
        if (found := [life.error] * bool(life.error) or miscounted(life))
    }
    kills = sum(life.killed for life in told.lives)
    charged = sum(life.spent > life.sent for life in told.lives)
    with capsys.disabled():
        print(
            f"\nbroke: {kills} kills, {len(bad)} divergences, {charged} lives with a charge for a request that was cut"
        )
    assert bad == {}
    assert miscounted(whole) == []
    assert 2 <= served["poor", "completed"] <= 5
    assert served["poor", "completed"] + served["poor", "failed"] == 10
    assert kills >= 20
    assert charged >= 3
    assert all(life.spent <= CAP for life in told.lives)
