"""Several processes on one data folder: nothing acknowledged is lost, and one of them drives."""

import asyncio
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.ports.store import InboxEntry, NewThread
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.lock import DriverLock
from retinue.storage.sqlite import Database, open_database

Start = Callable[..., subprocess.Popen[str]]

THREADS = 4
KILLS = 8
SOON = 20.0


@pytest.mark.spec("RUN-01", "RUN-11")
async def test_a_killed_process_loses_nothing_it_was_told_is_written(path: Path, start: Start) -> None:
    heads: dict[str, int] = {}
    entries: dict[str, list[str]] = {f"t{i}": [] for i in range(THREADS)}
    chance = random.Random(7)
    for _ in range(KILLS):
        process = start("committer", path, THREADS)
        assert process.stdout is not None
        for _ in range(chance.randint(1, 60)):
            note(process.stdout.readline(), heads, entries)
        process.kill()
        for line in process.communicate()[0].splitlines(keepends=True):
            note(line, heads, entries)

        database = await open_database(path)
        try:
            await agree(database, heads, entries)
        finally:
            await database.close()


def note(line: str, heads: dict[str, int], entries: dict[str, list[str]]) -> None:
    if not line.endswith("\n"):
        return  # killed in the middle of saying it
    thread, what = line.split()
    if thread.startswith("+"):
        entries[thread[1:]].append(what)
    else:
        heads[thread] = int(what)


async def agree(database: Database, heads: dict[str, int], entries: dict[str, list[str]]) -> None:
    """Everything acknowledged is there; what was not may be there too, but only whole."""
    assert await database.check() == []
    for thread, head in heads.items():
        events = await database.store.events(ThreadId(thread), limit=1_000_000)
        assert len(events) >= head
        assert [event.data for event in events] == [b"%d" % i for i in range(len(events))]
    before = await inbox_heads(database)
    for thread, ids in entries.items():
        for id in ids:
            await database.store.admit(ThreadId(thread), InboxEntry(id=id, kind="nudge", at=0.0))
    assert await inbox_heads(database) == before


async def inbox_heads(database: Database) -> list[int]:
    return [row.inbox_head for row in await database.store.rows(None)]


@pytest.mark.spec("RUN-11", "RUN-13", "SCALE-02")
async def test_one_process_drives_and_another_takes_over_when_it_dies(
    path: Path, start: Start, database: Database
) -> None:
    store = database.store
    thread = ThreadId("t")
    await store.create(
        NewThread(id=thread, tenant=Tenant("t"), root=thread, agent="a", created_at=0.0, events=(), runnable=False)
    )
    lock = DriverLock(path.with_name("driver.lock"))
    said: list[bytes] = []

    async def say(count: int) -> None:
        for _ in range(count):
            said.append(b"message %d" % len(said))
            await store.admit(thread, InboxEntry(id=str(len(said)), kind="message", data=said[-1], at=time.time()))

    async def heard() -> list[bytes]:
        assert await store.changed(thread, after=len(said) - 1, timeout=SOON)
        return [event.data for event in await store.events(thread)]

    first, second = start("driver", path), start("driver", path)
    for _ in range(3):
        await say(5)
        assert await heard() == said
        assert not lock.try_acquire()
        holder = first if lock.holder() == str(first.pid) else second
        await say(5)
        holder.kill()
        holder.wait()
        await say(5)
        assert await heard() == said
        if holder is first:
            first = start("driver", path)
        else:
            second = start("driver", path)
    assert await database.check() == []


async def test_many_processes_open_a_new_database_at_once(path: Path, start: Start) -> None:
    processes = [start("committer", path, 1) for _ in range(4)]

    lines = await asyncio.gather(
        *(asyncio.to_thread(process.stdout.readline) for process in processes if process.stdout)
    )

    assert all(lines)
