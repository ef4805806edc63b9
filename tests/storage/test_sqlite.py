"""What is special about the store in one SQLite file."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from retinue.ports.memory import Grants, Memory
from retinue.ports.records import AgentRecords
from retinue.ports.store import Commit, InboxEntry, NewThread, Store
from retinue.schema.errors import StoreUnavailable
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.connection import connect
from retinue.storage.sqlite import Database
from retinue.storage.tables import open_records
from retinue.storage.writes import REMEMBERED_ENTRIES

A = ThreadId("aaaaaaaa-0000-4000-8000-000000000000")


def thread(id: ThreadId = A) -> NewThread:
    return NewThread(id=id, tenant=Tenant("t"), root=id, agent="a", created_at=0.0, events=(b"1",))


def test_the_database_is_what_the_ports_ask_for(database: Database) -> None:
    store: Store = database.store
    records: AgentRecords = database.records
    memory: Memory = database.memory
    grants: Grants = database.grants
    assert all((store, records, memory, grants))


@pytest.mark.spec("RUN-01")
def test_a_commit_is_synced_to_disk_before_it_is_acknowledged(path: Path) -> None:
    connection = connect(path)
    pragmas = ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync")
    found = [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
    connection.close()

    assert found == ["wal", 2, 1, 1]


async def test_conversations_are_for_their_users_eyes(database: Database, path: Path) -> None:
    await database.store.create(thread())

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    assert modes == {"retinue.db": 0o600, "retinue.db-wal": 0o600, "retinue.db-shm": 0o600}


async def test_readers_keep_no_transaction_open(database: Database, path: Path) -> None:
    """An open one would keep the write-ahead log from being folded back, and let it grow for ever."""
    store = database.store
    await store.create(thread())
    (claim,) = await store.claim("one", now=1.0, lease=30.0)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=tuple(b"x" for _ in range(500))))
    for head in range(501, 521):
        await store.commit(Commit(thread=A, epoch=claim.epoch, expected=head, events=(b"x",)))

    reads = (
        store.events(A, limit=3),
        store.events(A, after=510, limit=1),
        store.row(A),
        store.rows(None, limit=1),
        store.inbox(A),
        store.next_due(),
        store.changed(A, after=10_000, timeout=0.0),
    )
    await asyncio.gather(*reads)

    connection = sqlite3.connect(path)
    busy, in_log, folded_back = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()
    assert (busy, in_log, folded_back) == (0, 0, 0)


async def test_the_newest_entries_of_an_inbox_are_remembered_and_the_oldest_forgotten(database: Database) -> None:
    store = database.store
    await store.create(thread())
    (claim,) = await store.claim("one", now=1.0, lease=30.0)
    total = REMEMBERED_ENTRIES + 5
    await asyncio.gather(*(store.admit(A, InboxEntry(id=str(n), kind="nudge", at=0.0)) for n in range(1, total + 1)))

    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, drained=total))

    assert await store.admit(A, InboxEntry(id="6", kind="nudge", at=0.0)) == 6
    assert await store.admit(A, InboxEntry(id="5", kind="nudge", at=0.0)) == total + 1


async def test_a_closed_database_says_so(database: Database) -> None:
    await database.close()

    with pytest.raises(StoreUnavailable, match="was closed"):
        await database.store.create(thread())


async def test_claiming_is_quick_however_many_threads_wait_for_their_time(database: Database, path: Path) -> None:
    """The plans of the claim: searches in the indices, no scan of the table."""
    from retinue.storage.writes import Claiming

    claiming = Claiming(owner="one", now=1.0, lease=30.0, limit=5, thread=None, steal=False)
    connection = sqlite3.connect(path)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {claiming.due}", claiming.parameters)]
    connection.close()

    assert "SEARCH threads USING INDEX threads_due (runnable_at<?)" in plan
    assert not [step for step in plan if step.startswith("SCAN threads") and "INDEX" not in step]


@pytest.mark.spec("RUN-01")
async def test_opening_the_file_again_keeps_our_hold_on_it(database: Database, path: Path) -> None:
    """Closing any descriptor of a file drops all of a process's POSIX locks on it.

    Another process would then take itself for the last user and remove the write-ahead log under us.
    """
    await database.store.create(thread())
    with open_records(path):
        pass
    assert await database.check() == []
    visit = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT id FROM threads').fetchall())"
    )

    async def visited() -> str:
        command = [sys.executable, "-c", visit, str(path)]
        return (await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)).stdout

    await visited()
    await database.store.create(thread(ThreadId("b")))

    assert await visited() == f"[('{A}',), ('b',)]\n"
