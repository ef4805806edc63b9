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

    async def until(self, which: int, path: str, words: str, headers: dict[str, str] = HEADERS) -> dict[str, object]:
        """Asks until the answer holds the words."""
        found: dict[str, object] = {}
        while words not in str(found):
            await asyncio.sleep(0.05)
            found = await self.get(which, path, headers)
        return found

    async def begin(self, which: int) -> str:
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


@pytest.mark.parametrize("killed", [0, 1])
async def test_both_get_the_others_result_although_one_is_killed(tmp_path: Path, killed: int) -> None:
    """Each is the caller of one task and the called one of another when it is killed."""
    async with asyncio.timeout(50), two_servers(tmp_path) as two:
        for which in (0, 1):
            await two.get(which, "/.well-known/agent-card.json")
        tasks = [await two.begin(which) for which in (0, 1)]
        for which in (0, 1):  # each works for the other
            await two.until(which, "/a2a/legal/tasks", "TASK_STATE", PARTNER)
        await two.kill(killed)
        await two.start(killed)
        found = [
            await two.until(which, f"/a2a/boss/tasks/{task}", "TASK_STATE_COMPLETED")
            for which, task in enumerate(tasks)
        ]
        asked = [await two.get(which, "/a2a/legal/tasks", PARTNER) for which in (0, 1)]
    assert ["It holds." in str(task["artifacts"]) for task in found] == [True, True]
    assert [tasks["totalSize"] for tasks in asked] == [1, 1]


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]
