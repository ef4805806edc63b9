"""Runs a program to its end or to a limit, and leaves nothing of it behind.

Output is handed on as it comes. When the program ends, when its time is up or
when the caller is cancelled, everything it started is killed: its process group,
and on Linux also what has left the group, known by a mark in its environment.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

MARK = "RETINUE_RUN"
_DRAIN = 2.0
_LOOK = 0.2
_SWEEPS = 200


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    """The exit status; negative for a signal."""
    ended: str = ""
    """Why it was ended before it was done: `time` or `processes`."""


async def run(
    argv: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str],
    seconds: float,
    output: Callable[[bytes], None],
    processes: int = 0,
    descriptors: tuple[int, ...] = (),
) -> Finished:
    """Run `argv`, standard input closed, both outputs as one.

    Args:
        argv: The program and its arguments.
        folder: Where it starts.
        env: All of its environment.
        seconds: After which it is killed.
        output: Given each piece as it comes.
        processes: How many it may have at once; 0 for no limit.
        descriptors: Kept open for it.
    """
    mark = str(uuid4())
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env={**env, MARK: mark},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
            pass_fds=descriptors,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    pump = asyncio.create_task(_pump(reading, output))
    try:
        ended = await _watched(process, seconds, processes)
    finally:
        await asyncio.shield(_end(process, mark))
        with suppress(TimeoutError):
            await asyncio.wait_for(pump, _DRAIN)
    return Finished(code=await process.wait(), ended=ended)


async def _watched(process: asyncio.subprocess.Process, seconds: float, processes: int) -> str:
    """Wait for the end; a limit on processes is looked at now and then, since root has no such limit."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        left = deadline - asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), min(left, _LOOK) if processes else left)
            return ""
        if processes and _count(process.pid) > processes:
            return "processes"
        if asyncio.get_running_loop().time() >= deadline:
            return "time"


async def _pump(reading: int, output: Callable[[bytes], None]) -> None:
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb"))
    try:
        while piece := await stream.read(65_536):
            output(piece)
    finally:
        transport.close()


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """Kill the group, then whatever carries the mark, until nothing does: a process may fork while we look."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for _ in range(_SWEEPS):
        if not _sweep(f"{MARK}={mark}".encode()):
            break
        await asyncio.sleep(0.005)
    await process.wait()


def _sweep(mark: bytes) -> bool:
    """Kill what carries the mark; whether there was anything."""
    found = False
    for entry in Path("/proc").iterdir() if sys.platform.startswith("linux") else ():
        with suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found = True
                os.kill(int(entry.name), signal.SIGKILL)
    return found


def _count(pid: int) -> int:
    """How many processes descend from `pid`, itself included."""
    total, todo = 0, [str(pid)]
    while todo:
        one = todo.pop()
        total += 1
        for task in _tasks(one):
            with suppress(OSError):
                todo += Path(f"{task}/children").read_text(encoding="ascii").split()
    return total


def _tasks(pid: str) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []
