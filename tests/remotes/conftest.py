"""Servers to talk to: real ones from npm and PyPI, a stub that misbehaves, one written with the SDK."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import pytest

from retinue.app.mcp import Mcp
from retinue.sandbox.bubblewrap import available
from retinue.schema.agent import McpServer, SandboxMode
from support.mcp import SERVERS, McpFactory, settings

ROOT = Path(__file__).parents[2]
PYPI = ("mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19", "mcp-server-fetch==2026.10.24")


def missing(reason: str) -> None:
    """Skip, except in CI, where nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _installed(folder: Path, stamp: str, *commands: list[str]) -> Path:
    """Install once for all test processes of this checkout."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        done = folder / ".installed"
        if not done.exists() or done.read_text() != stamp:
            for command in commands:
                try:
                    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
                except (OSError, subprocess.SubprocessError) as error:
                    missing(f"the servers can't be installed: {error}")
            done.write_text(stamp)
    return folder


@pytest.fixture(scope="session")
def npm() -> Path:
    """The folder of the servers from npm."""
    folder = ROOT / "build" / "npm-mcp"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(SERVERS / name, folder / name)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    stamp = (SERVERS / "package-lock.json").read_text()
    return _installed(folder, stamp, command) / "node_modules" / "@modelcontextprotocol"


@pytest.fixture(scope="session")
def pypi() -> Path:
    """The folder of the servers' programs from PyPI, in an environment of their own."""
    folder = ROOT / "build" / "pypi-mcp"
    make = [sys.executable, "-m", "venv", "."]
    install = ["bin/python", "-m", "pip", "install", "-q", *PYPI]
    return _installed(folder, "\n".join(PYPI), make, install) / "bin"


@pytest.fixture
def bubblewrap() -> None:
    found = available()
    if not found.program:
        missing(found.reason)


@pytest.fixture(params=["off", "auto"])
def isolation(request: pytest.FixtureRequest) -> SandboxMode:
    """Outside the sandbox and in it."""
    if request.param == "auto" and not available().program:
        missing(available().reason)
    return "auto" if request.param == "auto" else "off"


@pytest.fixture
async def mcp(tmp_path: Path) -> AsyncGenerator[McpFactory]:
    opened: list[Mcp] = []

    def factory(
        servers: Mapping[str, McpServer],
        *,
        sandbox: SandboxMode = "off",
        allow: tuple[str, ...] = (),
        deny: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        wait: float = 30.0,
        show: Callable[[str], None] | None = None,
    ) -> Mcp:
        known = settings(tmp_path, servers, sandbox=sandbox, allow=allow, deny=deny)
        opened.append(Mcp(known, environ or {}, wait=wait, show=show))
        return opened[-1]

    yield factory
    for one in opened:
        await one.close()
