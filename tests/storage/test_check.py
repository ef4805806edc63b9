"""Every disagreement between rows is found and said."""

import sqlite3
from pathlib import Path

import pytest

from retinue.ports.store import Commit, InboxEntry, NewThread, Reserve, Settle
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.sqlite import Database

PARENT, CHILD = ThreadId("parent"), ThreadId("child")


async def furnish(database: Database) -> None:
    store = database.store
    for id, parent in ((PARENT, None), (CHILD, PARENT)):
        await store.create(
            NewThread(
                id=id, tenant=Tenant("t"), root=PARENT, parent=parent, agent="a", created_at=0.0, events=(b"1", b"2")
            )
        )
        await store.admit(id, InboxEntry(id="x", kind="message", at=0.0))
        await store.admit(id, InboxEntry(id="y", kind="message", at=0.0))
    await store.claim("one", now=1.0, lease=30.0)
    for id in (PARENT, CHILD):
        ledger = (
            Reserve(request="open", cost=5, tokens=50),
            Reserve(request="done", cost=7, tokens=70),
            Settle(request="done", cost=6, tokens=60),
            Settle(request="free", cost=None, tokens=1),
        )
        await store.commit(Commit(thread=id, epoch=1, expected=2, events=(b"3", b"4", b"5"), drained=1, ledger=ledger))
        await store.commit(Commit(thread=id, epoch=1, expected=5, events=(b"6",)))


async def test_a_database_in_order_has_no_findings(database: Database) -> None:
    await furnish(database)

    assert await database.check() == []


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("UPDATE threads SET head = 7 WHERE id = 'child'", "thread child has a head of 7 and 6 events"),
        (
            "DELETE FROM events WHERE thread = 1 AND seq = 5",
            "thread parent: the events up to 6 do not follow those up to 2",
        ),
        (
            "UPDATE events SET sizes = '1,2' WHERE thread = 1 AND seq = 5",
            "thread parent: the events up to 5 do not follow those up to 2",
        ),
        (
            "DELETE FROM inbox WHERE thread = 2 AND position = 2",
            "thread child has an inbox head of 2, 1 drained, and 0 entries up to 0 waiting",
        ),
        (
            "UPDATE threads SET drained = 3 WHERE id = 'child'",
            "thread child has an inbox head of 2, 3 drained, and 0 entries up to 0 waiting",
        ),
        (
            "UPDATE threads SET spent_tokens = 60 WHERE id = 'parent'",
            "thread parent has spent 12 nano-dollars and 60 tokens with 2 unpriced requests: less than its children",
        ),
        (
            "UPDATE threads SET reserved_cost = 11 WHERE id = 'parent'",
            "thread parent has 11 nano-dollars and 100 tokens reserved; its requests say 10 and 100",
        ),
    ],
)
async def test_rows_that_disagree_are_said(database: Database, path: Path, damage: str, finding: str) -> None:
    await furnish(database)
    connection = sqlite3.connect(path)
    assert connection.execute(damage).rowcount == 1
    connection.commit()
    connection.close()

    assert await database.check() == [finding]


async def test_a_file_that_can_not_be_read_is_a_finding(database: Database, path: Path) -> None:
    await database.close()
    path.write_bytes(b"nothing of the kind " * 500)

    assert "it is not a database" in (await database.check())[0]
