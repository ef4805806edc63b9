"""A database of its own for every test, and programs that use one from another process."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from retinue.storage.sqlite import Database, open_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "retinue.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    opened = await open_database(path)
    yield opened
    await opened.close()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program of `programs/` with arguments; its output is a pipe. All are killed at the end."""
    running: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: object) -> subprocess.Popen[str]:
        file = Path(__file__).parent / "programs" / f"{program}.py"
        command = [sys.executable, str(file), *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()
