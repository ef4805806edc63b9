"""What tests of the sandbox share."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from retinue.sandbox.bubblewrap import Box, Sandbox, available
from retinue.sandbox.process import Finished, run


def need_bubblewrap() -> None:
    """Skip where bubblewrap can't work; where CI=true that is a failure."""
    found = available()
    if not found.program:
        assert os.environ.get("CI") != "true", f"bubblewrap must work where CI=true: {found.reason}"
        pytest.skip(found.reason)


class Inside:
    """Runs bash scripts in a sandbox over a real folder."""

    def __init__(self, workspace: Path, temporary: Path, home: Path, protected: tuple[str, ...] = ()) -> None:
        self.workspace = workspace
        self._temporary = temporary
        self._home = home
        self._protected = protected
        self.output = ""

    async def __call__(self, script: str, *, network: bool = False, env: Mapping[str, str] | None = None) -> Finished:
        box = Box(
            workspace=str(self.workspace),
            folder=str(self.workspace),
            temporary=str(self._temporary),
            home=str(self._home),
            network=network,
            protected=self._protected,
        )
        pieces: list[bytes] = []
        with Sandbox(box) as sandbox:
            variables = {"PATH": os.environ["PATH"], **(env or {})}
            command = sandbox.command(["bash", "--norc", "-c", script], variables)
            finished = await run(command, folder="/", env=variables, seconds=20, output=pieces.append)
        self.output = b"".join(pieces).decode()
        return finished

    async def refuses(self, *scripts: str) -> None:
        """Try each script for itself; every one must fail."""
        tries = [f"( {script} ) >/dev/null 2>&1 && echo {shlex.quote(script)}" for script in scripts]
        await self("\n".join(tries))
        assert self.output == "", "these were not refused"


@pytest.fixture
def outside(pytestconfig: pytest.Config) -> Iterator[Path]:
    """A folder that is not below /tmp, which is private in the sandbox."""
    assert pytestconfig.cache is not None
    place = pytestconfig.cache.mkdir("sandbox")
    if place.is_relative_to("/tmp") or place.is_relative_to("/var/tmp"):
        place = Path.home() / ".cache/retinue-tests"
    folder = place / uuid4().hex
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def inside(outside: Path) -> Inside:
    need_bubblewrap()
    for name in ("work", "tmp", "home"):
        (outside / name).mkdir()
    return Inside(outside / "work", outside / "tmp", outside / "home")
