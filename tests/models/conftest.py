"""A simulator of providers that we did not write (aimock), and what to do when it can't run."""

import asyncio
import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "aimock"
INSTALLED = Path(__file__).parents[2] / "build" / "aimock"
LISTENING = re.compile(r"listening on (http://\S+)")


def missing(reason: str) -> None:
    """Skip, except in CI, where nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _install() -> Path:
    """The simulator's program, installed once for all test processes of this checkout."""
    program = INSTALLED / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    lock = (PACKAGE / "package-lock.json").read_bytes()
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / ".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        done = INSTALLED / ".installed"
        if done.exists() and done.read_bytes() == lock:
            return program
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(PACKAGE / name, INSTALLED / name)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        try:
            subprocess.run(command, cwd=INSTALLED, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            missing(f"aimock can't be installed with npm: {error}")
        done.write_bytes(lock)
    return program


def _control(url: str, path: str, body: object = None) -> bytes:
    request = urllib.request.Request(f"{url}/__aimock/{path}", method="GET" if body is None else "POST")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read()


@pytest.fixture(scope="session")
def aimock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The simulator's URL; one process for each test process."""
    node = shutil.which("node")
    if node is None:
        missing("node is not installed")
        return
    program = _install()
    fixtures = tmp_path_factory.mktemp("aimock") / "none.json"
    fixtures.write_text('{"fixtures": []}')
    process = subprocess.Popen(
        [node, str(program), "-p", "0", "-f", str(fixtures)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = process.stdout
    assert output is not None
    drain = None  # a full pipe would stop the simulator
    try:
        said = ""
        for line in output:
            said += line
            if match := LISTENING.search(line):
                drain = threading.Thread(target=output.read)
                drain.start()
                yield match[1]
                break
        else:
            missing(f"aimock did not start: {said}")
    finally:
        process.kill()
        process.wait()
        if drain:
            drain.join()
        output.close()


@pytest.fixture
def aimock(aimock_server: str) -> Callable[..., str]:
    """`aimock({"match": {...}, "response": {...}}, ...)` says what is answered and gives the server's URL.

    A fixture may also have `chunkSize`, `latency`, `truncateAfterChunks`,
    `disconnectAfterMs` and `chaos`. The base URL is `<url>/v1` for OpenAI and
    Anthropic, `<url>/v1beta` for Gemini. Earlier fixtures and requests are forgotten.
    """

    def answer(*fixtures: object) -> str:
        _control(aimock_server, "reset", {})
        _control(aimock_server, "fixtures", {"fixtures": fixtures})
        return aimock_server

    return answer


@pytest.fixture
def aimock_requests(aimock_server: str) -> Callable[[], list[dict[str, object]]]:
    """Every request the simulator has seen since its fixtures were set, oldest first."""

    def journal() -> list[dict[str, object]]:
        entries: list[dict[str, object]] = json.loads(_control(aimock_server, "journal"))
        return entries

    return journal


Serve = Callable[..., Awaitable[tuple[str, list[bytes]]]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`url, requests = await serve(b"HTTP/1.1 200 …", …)`: a server that says these pieces to every request.

    The connection is closed after them. `requests` fills with what was received, headers and body.
    """
    servers: list[asyncio.Server] = []

    async def start(*pieces: bytes) -> tuple[str, list[bytes]]:
        requests: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            requests.append(head + await reader.readexactly(int(length[1]) if length else 0))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}", requests

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()
