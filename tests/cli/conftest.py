"""A project, a user's folder of its own, and the command line run in this process or a real one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.cli.main import main
from support.scripted import Setup

Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("RETINUE_HOME", str(folder))
    monkeypatch.setenv("RETINUE_OPERATOR", str(tmp_path / "operator"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("RETINUE_DEBUG", raising=False)
    return folder


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def write(project: Path) -> Callable[..., Path]:
    def write(path: str, text: str = "---\ndescription: Helps.\n---\nYou help.\n") -> Path:
        file = project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def run(*args: str) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(args)
        printed = capsys.readouterr()
        return Ran(args, int(left.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def process(project: Path) -> Callable[..., Ran]:
    """The installed program in a process of its own."""

    def process(*args: str, python: str | None = None) -> Ran:
        command = [sys.executable, "-c", python or "from retinue.cli.main import main; main()", *args]
        return subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=60, check=False)

    return process


@pytest.fixture
def repository(tmp_path: Path, home: Path) -> Callable[..., Path]:
    """Commit files to a git repository; None deletes one."""

    def commit(files: dict[str, str | None], name: str = "agents") -> Path:
        folder = tmp_path / "repositories" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            _git(folder, "init", "-qb", "main")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                (folder / path).unlink()
            else:
                (folder / path).write_text(text)
        _git(folder, "add", "-A")
        _git(folder, "-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-qm", "change")
        return folder

    return commit


def _git(folder: Path, *args: str) -> None:
    subprocess.run(["git", "-C", str(folder), *args], check=True, capture_output=True)


@pytest.fixture
def scripted(home: Path, project: Path) -> Setup:
    """Agents on a scripted model, for real processes."""
    return Setup(home, project)
