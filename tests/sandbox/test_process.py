import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from retinue.sandbox.limits import Limits, limited
from retinue.sandbox.process import Finished, run

ENV = {"PATH": os.environ["PATH"]}


async def shell(script: str, folder: Path, seconds: float = 20, processes: int = 0) -> tuple[Finished, bytes]:
    pieces: list[bytes] = []
    argv = ["bash", "--norc", "-c", script]
    finished = await run(argv, folder=str(folder), env=ENV, seconds=seconds, output=pieces.append, processes=processes)
    return finished, b"".join(pieces)


def alive(marker: str) -> bool:
    def line(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError:
            return b""

    return any(marker.encode() in line(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


async def test_output_status_and_both_streams_come_through(tmp_path: Path) -> None:
    finished, output = await shell("echo out; echo err >&2; pwd; cat; exit 3", tmp_path)

    assert finished == Finished(code=3)
    assert output.decode() == f"out\nerr\n{tmp_path}\n"


async def test_when_time_is_up_the_whole_group_is_killed(tmp_path: Path) -> None:
    started = time.monotonic()

    finished, output = await shell("echo begun; sleep 7654.1 & sleep 7654.1", tmp_path, seconds=0.3)

    assert finished.ended == "time"
    assert output == b"begun\n"
    assert time.monotonic() - started < 5
    assert not alive("7654.1")


async def test_a_process_that_left_its_group_is_found_and_killed(tmp_path: Path) -> None:
    finished, output = await shell("setsid nohup sleep 7654.2 >/dev/null 2>&1 & echo done", tmp_path)

    assert (finished.code, output) == (0, b"done\n")
    assert not alive("7654.2")


async def test_a_background_process_does_not_hold_the_call_up(tmp_path: Path) -> None:
    started = time.monotonic()

    await shell("sleep 7654.3 & echo done", tmp_path)

    assert time.monotonic() - started < 5
    assert not alive("7654.3")


async def test_cancelling_kills_it(tmp_path: Path) -> None:
    seen = asyncio.Event()
    argv = ["bash", "--norc", "-c", "echo begun; sleep 7654.4"]
    task = asyncio.create_task(run(argv, folder=str(tmp_path), env=ENV, seconds=60, output=lambda _: seen.set()))
    async with asyncio.timeout(5):
        await seen.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive("7654.4")


@pytest.mark.spec("PERM-07")
async def test_too_many_processes_end_it(tmp_path: Path) -> None:
    finished, _ = await shell("for i in {1..40}; do sleep 7654.5 & done; wait", tmp_path, processes=20)

    assert finished.ended == "processes"
    assert not alive("7654.5")


@pytest.mark.spec("PERM-07")
async def test_memory_and_file_size_are_limited(tmp_path: Path) -> None:
    limits = Limits(memory=200 * 1024**2, file_size=1024**2)
    script = "import sys; bytearray(int(sys.argv[1])); open('f', 'wb').write(bytes(int(sys.argv[2])))"

    async def tried(memory: int, size: int) -> int:
        argv = limited([sys.executable, "-c", script, str(memory), str(size)], limits, sandboxed=False)
        done = await run(argv, folder=str(tmp_path), env=ENV, seconds=20, output=lambda _: None)
        return done.code

    assert await tried(1000, 1000) == 0
    assert await tried(400 * 1024**2, 1000) != 0
    assert await tried(1000, 2 * 1024**2) != 0


async def test_a_program_that_is_not_there_is_an_error_and_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    with pytest.raises(FileNotFoundError):
        await run(["/no/such/program"], folder=str(tmp_path), env=ENV, seconds=1, output=lambda _: None)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
