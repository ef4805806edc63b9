"""CPU of one durable commit: the store against a bare loop that inserts one row, both committed in groups.

    python bench/store.py [commits]

Prints microseconds of CPU a commit for 1, 8 and 64 writers at a time.
"""

import asyncio
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import SimpleQueue

from retinue.ports.store import Claim, Commit, Listing, NewThread, Reserve, Settle
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.sqlite import SqliteStore, open_database

EVENT = b'{"type":"x","text":"' + b"a" * 400 + b'"}'
ROUNDS = 3

_Job = tuple[int, int, bytes, "asyncio.Future[None]"]


async def main(commits: int) -> None:
    print("µs of CPU a commit (ms of time a step)")
    print(f"{'writers':>8} {'bare':>8} {'1 event':>8} {'step':>8} {'child':>8}")
    for writers in (1, 8, 64):
        rows = [await measure(writers, commits) for _ in range(ROUNDS)]
        bare, events, step, child = (min(column) for column in zip(*rows, strict=True))
        print(f"{writers:>8} {bare[0]:8.0f} {events[0]:8.0f} {step[0]:8.0f} {child[0]:8.0f}   ({step[1]:.3f})")


async def measure(writers: int, commits: int) -> list[tuple[float, float]]:
    each = commits // writers
    with tempfile.TemporaryDirectory() as folder:
        bare = Bare(Path(folder) / "bare.db")
        of_bare = await timed(writers, each, bare.insert)
        bare.close()
        database = await open_database(Path(folder) / "store.db")
        ours = [
            await timed(writers, each, await driven(database.store, writers, make))
            for make in (one_event, step, step_of_child)
        ]
        await database.close()
    return [of_bare, *ours]


async def timed(writers: int, each: int, one: Callable[[int, int], Awaitable[object]]) -> tuple[float, float]:
    async def write(writer: int) -> None:
        for index in range(each):
            await one(writer, index)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(write(writer) for writer in range(writers)))
    total = writers * each
    return (time.process_time() - cpu) / total * 1e6, (time.perf_counter() - wall) / total * 1e3


Make = Callable[[Claim, int], Commit]


async def driven(store: SqliteStore, writers: int, make: Make) -> Callable[[int, int], Awaitable[object]]:
    name = make.__name__
    parent = ThreadId(f"{name}-parent")
    await store.create(
        NewThread(
            id=parent, tenant=Tenant("t"), root=parent, agent="a", created_at=0.0, events=(EVENT,), runnable=False
        )
    )
    for writer in range(writers):
        id = ThreadId(f"{name}-{writer}")
        above = parent if make is step_of_child else None
        await store.create(
            NewThread(
                id=id, tenant=Tenant("t"), root=above or id, parent=above, agent="a", created_at=0.0, events=(EVENT,)
            )
        )
    claims = await store.claim("bench", now=time.time(), lease=30.0)
    ordered = sorted(claims, key=lambda claim: claim.thread)

    async def one(writer: int, index: int) -> None:
        await store.commit(make(ordered[writer], index))

    return one


def one_event(claim: Claim, index: int) -> Commit:
    return Commit(thread=claim.thread, epoch=claim.epoch, expected=claim.head + index, events=(EVENT,))


def step(claim: Claim, index: int) -> Commit:
    return Commit(
        thread=claim.thread,
        epoch=claim.epoch,
        expected=claim.head + index * 3,
        events=(EVENT, EVENT, EVENT),
        ledger=(
            Settle(request=f"r{index - 1}", cost=900, tokens=90),
            Reserve(request=f"r{index}", cost=1000, tokens=100),
        ),
        listing=Listing(status="running", agent="a", steps=index, tokens=index * 100, cost=index * 10, updated_at=1.0),
    )


def step_of_child(claim: Claim, index: int) -> Commit:
    return step(claim, index)


class Bare:
    """One table, one writer thread, whatever is queued in one transaction."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE messages (thread INTEGER, seq INTEGER, data BLOB, PRIMARY KEY (thread, seq))"
        )
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    async def insert(self, thread: int, seq: int) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((thread, seq, EVENT, future))
        await future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty():
                if (job := self._queue.get()) is not None:
                    group.append(job)
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", [job[:3] for job in group])
            self._connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._settle, group)

    def _settle(self, group: list[_Job]) -> None:
        for *_, future in group:
            future.set_result(None)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 6400))
