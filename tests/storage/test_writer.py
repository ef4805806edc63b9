"""One thread writes: groups, failures that stay alone, and an end that leaves nobody waiting."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from retinue.schema.errors import Conflict, StoreUnavailable
from retinue.storage.writer import Transaction, Writer


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.commits: list[tuple[set[str], bool]] = []
        self.elsewhere = asyncio.Event()

    def committed(self, moved: set[str], *, woke: bool) -> None:
        self.commits.append((moved, woke))

    def written_elsewhere(self) -> None:
        self.elsewhere.set()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "w.db"


def connected(file: Path, *, timeout: float = 20.0) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=timeout)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER NOT NULL UNIQUE)")
    return connection


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def writer(file: Path, heard: Heard) -> AsyncIterator[Writer]:
    writer = Writer(connected(file), file, now=lambda: 1.0, listener=heard)
    yield writer
    await writer.close()


@pytest.fixture
def reader(file: Path, writer: Writer) -> Iterator[sqlite3.Connection]:
    connection = connected(file)
    yield connection
    connection.close()


def numbers(reader: sqlite3.Connection) -> list[int]:
    return [n for (n,) in reader.execute("SELECT n FROM t ORDER BY n")]


def insert(transaction: Transaction, n: int) -> int:
    transaction.execute("INSERT INTO t VALUES (?)", (n,))
    transaction.moved.add(str(n))
    return n


def refuse(transaction: Transaction, n: int) -> int:
    raise Conflict(f"{n}")


def insert_and_refuse(transaction: Transaction, n: int) -> int:
    insert(transaction, n)
    raise Conflict(f"{n}")


def break_sql(transaction: Transaction, n: int) -> int:
    return transaction.execute("SELECT n FROM nowhere").fetchone()[n]


async def test_what_is_queued_together_is_committed_together(
    writer: Writer, heard: Heard, reader: sqlite3.Connection
) -> None:
    reader.execute("BEGIN IMMEDIATE")  # while we write, the queue fills
    queued = [asyncio.create_task(writer.write(insert, n)) for n in range(50)]
    await asyncio.sleep(0)
    reader.execute("COMMIT")

    assert await asyncio.gather(*queued) == list(range(50))
    assert numbers(reader) == list(range(50))
    assert len(heard.commits) < 5
    assert set[str]().union(*(moved for moved, _ in heard.commits)) == {str(n) for n in range(50)}


@pytest.mark.parametrize("bad", [refuse, insert_and_refuse])
async def test_work_that_fails_fails_alone(
    writer: Writer, reader: sqlite3.Connection, bad: Callable[[Transaction, int], int]
) -> None:
    work = [bad if n % 5 == 2 else insert for n in range(20)]

    results = await asyncio.gather(*(writer.write(does, n) for n, does in enumerate(work)), return_exceptions=True)

    assert [type(result) for result in results] == [Conflict if n % 5 == 2 else int for n in range(20)]
    assert numbers(reader) == [n for n in range(20) if n % 5 != 2]


async def test_a_bug_in_work_is_raised_to_its_caller_alone(writer: Writer, reader: sqlite3.Connection) -> None:
    await writer.write(insert, 1)

    results = await asyncio.gather(*(writer.write(insert, n) for n in (2, 1, 3)), return_exceptions=True)

    assert [type(result) for result in results] == [int, sqlite3.IntegrityError, int]
    assert numbers(reader) == [1, 2, 3]


async def test_a_fault_of_the_database_fails_the_group_and_stops_the_writer(
    writer: Writer, reader: sqlite3.Connection
) -> None:
    """A statement that SQLite can't even prepare stands for a database it can't use."""
    reader.execute("BEGIN IMMEDIATE")
    first, *queued = [
        asyncio.create_task(writer.write(work, n)) for n, work in enumerate((insert, insert, break_sql, insert))
    ]
    await asyncio.sleep(0)
    reader.execute("COMMIT")

    await asyncio.wait([first])
    for waiting in queued:
        with pytest.raises(StoreUnavailable, match="no such table"):
            await waiting
    with pytest.raises(StoreUnavailable, match="no such table"):
        await writer.write(insert, 9)
    assert numbers(reader) == ([] if first.exception() else [0])  # it may have been a group of its own


async def test_a_lock_held_too_long_fails_what_waits_and_nothing_after(file: Path, heard: Heard) -> None:
    writer = Writer(connected(file, timeout=0.05), file, now=lambda: 1.0, listener=heard)
    other = connected(file)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="another process kept it locked"):
        await writer.write(insert, 1)
    other.execute("COMMIT")

    assert await writer.write(insert, 2) == 2
    assert numbers(other) == [2]
    other.close()
    await writer.close()


async def test_closing_finishes_what_is_queued_and_refuses_the_rest(writer: Writer, reader: sqlite3.Connection) -> None:
    queued = [asyncio.create_task(writer.write(insert, n)) for n in range(10)]
    await asyncio.sleep(0)

    await asyncio.gather(writer.close(), writer.close())

    assert await asyncio.gather(*queued) == list(range(10))
    with pytest.raises(StoreUnavailable, match="was closed"):
        await writer.write(insert, 11)


async def test_a_cancelled_caller_disturbs_nobody(writer: Writer, reader: sqlite3.Connection) -> None:
    queued = [asyncio.create_task(writer.write(insert, n)) for n in range(3)]
    await asyncio.sleep(0)
    queued[1].cancel()

    results = await asyncio.gather(*queued, return_exceptions=True)

    assert [type(result) for result in results] == [int, asyncio.CancelledError, int]
    assert await writer.write(insert, 3) == 3
    assert numbers(reader) == [0, 1, 2, 3]


async def test_only_writes_of_others_are_told_and_only_while_somebody_watches(
    writer: Writer, heard: Heard, reader: sqlite3.Connection
) -> None:
    writer.watch()
    await writer.write(insert, 1)
    reader.execute("INSERT INTO t VALUES (2)")
    async with asyncio.timeout(20):
        await heard.elsewhere.wait()
    heard.elsewhere.clear()

    for n in range(3, 40):
        await writer.write(insert, n)
    assert not heard.elsewhere.is_set()
    writer.unwatch()


async def test_a_write_of_others_is_seen_while_we_write_all_the_time(
    writer: Writer, heard: Heard, reader: sqlite3.Connection
) -> None:
    writer.watch()
    reader.execute("INSERT INTO t VALUES (0)")
    async with asyncio.timeout(20):
        n = 0
        while not heard.elsewhere.is_set():
            n += 1
            await writer.write(insert, n)
    writer.unwatch()
