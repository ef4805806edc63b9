"""What the judge finds is what bash runs: scripts are run by a real bash whose `rm` leaves a mark."""

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.policy.calls import Authority, judge_call
from retinue.schema.permission import Rule, Verdict

Wrap = Callable[[str], str]

SPELLINGS = (
    "rm x",
    "'r'm x",
    "r\\m x",
    "$'\\x72m' x",
    '$"rm" x',
    'r""m x',
    "A=b rm x",
    ">o rm x",
    "rm x 2>&1",
    "{ rm x; } 2>/dev/null",
    "command rm x",
    "env A=b rm x",
    "eval 'rm x'",
    "x=1; echo a\n\\rm x",
    "[[ -v 'a[$(rm x)]' ]]",
    "declare -i n; n='a[$(rm x)]'",
    "echo a | xargs rm",
    "bash <<< 'rm x'",
    "echo ok && bash <<'E'\nrm x\nE",
    "cat <<'E'\n E\necho '\nE\nrm x #'",
    "git log | bash -c 'rm x'",
    "r\\\nm x",
)
FINE = (
    "echo 'rm x'",
    'echo "rm x"',
    "echo a # rm x",
    "git commit -m 'rm x'",
    "cat <<'E'\n$(rm x)\nE",
    "echo \\$\\(rm x\\)",
)
SAFE = (
    "coproc",
    "background",
    "watch",
    "ssh",
    "docker",
    "sudo",
    "find",
    "git",
    "alias",
    "select",
    "env -S",
    "variable",
)
"""Wrappings that need a program or a terminal that is not there, or go on in the background."""


@pytest.fixture
def ran(tmp_path: Path) -> Callable[[list[str]], list[bool]]:
    """Runs scripts with nothing but harmless programs, and tells which of them ran `rm`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rm").write_text('#!/bin/sh\n: > "$MARK"\n')
    for name in ("git", "ls", "npm"):
        (programs / name).write_text("#!/bin/sh\nexit 0\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    for name in ("bash", "sh", "cat", "env", "xargs", "timeout", "nice", "nohup", "true"):
        (programs / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")

    def run(scripts: list[str]) -> list[bool]:
        folder = tmp_path / "work"
        folder.mkdir()
        for index, script in enumerate(scripts):
            (tmp_path / f"{index}.sh").write_text(script)
        loop = 'for i in $(seq 0 "$1"); do MARK=$2/$i.mark PATH=$3 bash -c "$(cat "$2/$i.sh")" </dev/null; done; wait'
        subprocess.run(
            ["/bin/bash", "-c", loop, "_", str(len(scripts) - 1), str(tmp_path), str(programs)],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            capture_output=True,
            timeout=120,
            check=False,
        )
        return [(tmp_path / f"{index}.mark").exists() for index in range(len(scripts))]

    return run


@pytest.mark.spec("PERM-02")
def test_a_script_in_which_bash_runs_a_denied_command_is_never_allowed(
    ran: Callable[[list[str]], list[bool]],
    authority: Callable[..., Authority],
    clear: dict[str, Wrap],
    murky: dict[str, Wrap],
) -> None:
    """Everything else is allowed here, so only finding the command can stop it."""
    wraps = [wrap for name, wrap in (clear | murky).items() if name not in SAFE]
    rng = random.Random(1)
    scripts = [*SPELLINGS, *FINE, *(wrap(SPELLINGS[i % len(SPELLINGS)]) for i, wrap in enumerate(wraps))]
    scripts += [rng.choice(wraps)(rng.choice(wraps)(rng.choice((*SPELLINGS, *FINE)))) for _ in range(60)]
    rules = [Rule(tool=tool, verdict="allow") for tool in ("bash", "read", "edit")]
    open_door = authority(*rules, Rule(tool="bash", pattern="rm *", verdict="deny"))

    results = list(zip(scripts, ran(scripts), strict=True))

    def verdict(script: str) -> Verdict:
        return judge_call(open_door, "bash", script).verdict

    assert [script for script, marked in results if marked and verdict(script) == "allow"] == []
    assert sum(marked for _, marked in results) > 80
    assert [(marked, verdict(script)) for script, marked in results if script in FINE] == [(False, "allow")] * len(FINE)
