"""Two Retinue servers that call each other's agents, one killed in the middle of a task."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.spec("REG-10", "API-05")
TESTS = Path(__file__).parents[2]
HEADERS = {"Authorization": "Bearer alice", "A2A-Version": "1.0"}
PARTNER = {"Authorization": "Bearer bob", "A2A-Version": "1.0"}
SAID = {"role": "ROLE_USER", "parts": [{"text": "go"}], "messageId": "m1"}


class Two:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ports = _free_ports()
        self._running: dict[int, Process] = {}

    async def start(self, which: int) -> None:
        port, other = self.ports[which], self.ports[1 - which]
        self._running[which] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "support.a2a_process", str(self._folder / str(which)), str(port), str(other)),
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    async def kill(self, which: int) -> None:
        process = self._running.pop(which)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def close(self) -> None:
        for which in list(self._running):
            await self.kill(which)

    async def get(self, which: int, path: str, headers: dict[str, str] = HEADERS) -> dict[str, object]:
        """Asks until the server is up."""
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            while True:
                try:
                    answer = await client.get(f"http://127.0.0.1:{self.ports[which]}{path}", headers=headers)
                    return answer.json()
                except httpx.TransportError:
                    await asyncio.sleep(0.1)

    async def begin(self, which: int) -> str:
        await self.get(which, "/.well-known/agent-card.json")
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            url = f"http://127.0.0.1:{self.ports[which]}/a2a/boss/message:send"
            body = {"message": SAID, "configuration": {"returnImmediately": True}}
            return (await client.post(url, json=body, headers=HEADERS)).json()["task"]["id"]


@asynccontextmanager
async def two_servers(folder: Path) -> AsyncGenerator[Two]:
    two = Two(folder)
    try:
        await asyncio.gather(two.start(0), two.start(1))
        yield two
    finally:
        await two.close()


@pytest.mark.parametrize("killed", [0, 1], ids=["caller", "called"])
async def test_the_caller_gets_its_result_although_one_is_killed(tmp_path: Path, killed: int) -> None:
    async with asyncio.timeout(50), two_servers(tmp_path) as two:
        await two.get(1, "/.well-known/agent-card.json")
        task = await two.begin(0)
        tasks: object = []
        while not tasks:  # until the other one works on it
            await asyncio.sleep(0.05)
            tasks = (await two.get(1, "/a2a/legal/tasks", PARTNER))["tasks"]
        await two.kill(killed)
        await two.start(killed)
        found: dict[str, object] = {}
        while "COMPLETED" not in str(found.get("status")):
            found = await two.get(0, f"/a2a/boss/tasks/{task}")
            await asyncio.sleep(0.1)
        asked = await two.get(1, "/a2a/legal/tasks", PARTNER)
    assert "It holds." in str(found["artifacts"])
    assert asked["totalSize"] == 1


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]
