"""Runs the blocks of the guides, page by page, so that what they show is what happens.

A page is one session in a fresh folder with a user's folder of its own. A `console` block holds
commands (`$ …`) and the output that follows them; `…` stands for any text, alone on a line for any
lines, and `# exit 1` after a command for its exit code. A `python` block is a program. A block
whose fence names a file (```toml retinue.toml) becomes that file.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
FENCE = re.compile(
    r"^```(?P<kind>\w+)(?:[ \t]+(?P<file>\S+))?[ \t]*\n(?P<text>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    kind: str
    file: str | None
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    code: int
    expected: str


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "person"),
        "RETINUE_HOME": str(tmp_path / "home"),
        "RETINUE_OPERATOR": str(tmp_path / "operator"),
        "PYTHONUNBUFFERED": "1",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "n",
        "GIT_CONFIG_KEY_1": "user.email",
        "GIT_CONFIG_VALUE_1": "n@example.com",
    }
    for block in blocks(page.read_text()):
        where = f"{page.name}:{block.line}"
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.kind == "console":
            for command in commands(block.text):
                _check(command, _run(["sh", "-c", command.text], folder, env), where)
        elif block.kind == "python":
            done = _run([sys.executable, "-c", block.text], folder, env)
            assert done.returncode == 0, f"{where}: {done.stdout}"


def test_the_runner_tells_output_from_commands_and_takes_wildcards() -> None:
    [block] = blocks("text\n\n```console\n$ one \\\n    two  # exit 1\na … c\n…\nend\n$ three\n```\n")

    first, second = commands(block.text)

    assert (first, second) == (
        Command(text="one \\\n    two", code=1, expected="a … c\n…\nend\n"),
        Command(text="three", code=0, expected=""),
    )
    assert matches(first.expected, "a b c\nany\nlines\nend\n")
    assert not matches(first.expected, "a b d\nend\n")


def blocks(page: str) -> Iterator[Block]:
    for found in FENCE.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        yield Block(kind=found["kind"], file=found["file"], text=found["text"], line=line)


def commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        said = re.match(r"(?P<text>(?:.*\\\n)*.*?)(?:\s+# exit (?P<code>\d+))?\n", part)
        assert said is not None
        yield Command(text=said["text"], code=int(said["code"] or 0), expected=part[said.end() :])


def matches(expected: str, printed: str) -> bool:
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"[ \t]*\n"
        for line in expected.rstrip("\n").split("\n")
    )
    return re.fullmatch(pattern, printed if printed.endswith("\n") else printed + "\n") is not None


def _run(command: list[str], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )


def _check(command: Command, done: subprocess.CompletedProcess[str], where: str) -> None:
    assert done.returncode == command.code, f"{where}: $ {command.text}\n{done.stdout}"
    if command.expected.strip():
        assert matches(command.expected, done.stdout), f"{where}: $ {command.text}\n{done.stdout}"
