"""The store in one SQLite file: reads on the event loop's thread, writes through the one writer.

A read is a short range on a connection of its own, complete before anything is
awaited, so no read transaction outlives a call. Which rows a write touches is
`retinue.storage.writes`; custom agents, memory and grants are `retinue.storage.tables`.
"""

import asyncio
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from retinue.ports.clock import Clock
from retinue.ports.store import (
    Account,
    Caps,
    Claim,
    Commit,
    Committed,
    InboxEntry,
    Listing,
    NewThread,
    QuestionRow,
    StoredEvent,
    StoredInbox,
    ThreadRow,
)
from retinue.schema.ids import QuestionId, Seq, Tenant, ThreadId
from retinue.schema.thread import ThreadStatus
from retinue.storage import writes
from retinue.storage.a2a import A2aTable
from retinue.storage.check import check
from retinue.storage.connection import connect, fetch, unavailable
from retinue.storage.keys import AnswerTable, DeliveryTable, KeyTable
from retinue.storage.schema import migrate
from retinue.storage.tables import GrantTable, MemoryTable, RecordTable
from retinue.storage.waiting import Waiting
from retinue.storage.writer import Writer

_ROW = (
    *("id", "tenant", "root", "parent", "created_at", "head", "inbox_head", "drained"),
    *("runnable_at", "owner", "lease_until", "epoch"),
)
_ACCOUNT = ("spent_cost", "spent_tokens", "reserved_cost", "reserved_tokens", "unpriced")

_EVENTS = """
    SELECT seq, sizes, data FROM events
    WHERE thread = (SELECT key FROM threads WHERE id = ?) AND seq > ? ORDER BY seq
"""

_INBOX = """
    SELECT position, inbox.id, kind, data, at FROM threads JOIN inbox ON inbox.thread = threads.key
    WHERE threads.id = ? AND position > max(?, drained) ORDER BY position LIMIT ?
"""

_QUESTION = """
    SELECT threads.id, questions.id, open, data, expires FROM questions JOIN threads ON threads.key = questions.thread
"""


async def open_database(path: Path, *, clock: Clock | None = None) -> "Database":
    """Open or create the file at `path`, bringing an older one up to this version.

    The database belongs to the running event loop.

    Raises:
        StoreUnavailable: it can't be opened, is damaged, or was written by a newer version.
    """
    connection = connect(path)
    try:
        migrate(connection, path)
        reader = connect(path, reads_only=True)
    except BaseException:
        connection.close()
        raise
    waiting = Waiting()
    writer = Writer(connection, path, now=clock.now if clock else time.time, listener=waiting)
    return Database(
        path=path,
        store=SqliteStore(path, reader, writer, waiting),
        records=RecordTable(path, reader, writer.write),
        memory=MemoryTable(path, reader, writer.write),
        grants=GrantTable(path, reader, writer.write),
        keys=KeyTable(path, reader, writer.write),
        answers=AnswerTable(path, reader, writer.write),
        deliveries=DeliveryTable(path, reader, writer.write),
        a2a=A2aTable(path, reader, writer.write),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One file and everything kept in it."""

    path: Path
    store: "SqliteStore"
    records: RecordTable
    memory: MemoryTable
    grants: GrantTable
    keys: KeyTable
    answers: AnswerTable
    deliveries: DeliveryTable
    a2a: A2aTable

    async def check(self) -> list[str]:
        """What `doctor --verify` found wrong; empty when all is well."""
        return await asyncio.to_thread(check, self.path)

    async def close(self) -> None:
        await self.store.close()


class SqliteStore:
    """`retinue.ports.store.Store`."""

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: Writer, waiting: Waiting) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer
        self._waiting = waiting
        self._latest_claim = inf  # the clock may have been set back while nobody was here

    async def create(self, thread: NewThread) -> bool:
        return await self._writer.write(writes.create, thread)

    async def admit(self, thread: ThreadId, entry: InboxEntry) -> int:
        return await self._writer.write(writes.admit, (thread, entry))

    async def commit(self, commit: Commit) -> Committed:
        return await self._writer.write(writes.commit, commit)

    async def claim(
        self,
        owner: str,
        *,
        now: float,
        lease: float,
        limit: int = 64,
        thread: ThreadId | None = None,
        room: Mapping[str, int] | None = None,
        steal: bool = False,
    ) -> Sequence[Claim]:
        if now < self._latest_claim:
            await self._writer.write(writes.set_back, (now, 0.0 if self._latest_claim == inf else self._latest_claim))
        self._latest_claim = now
        claiming = writes.Claiming(
            owner=owner, now=now, lease=lease, limit=limit, thread=thread, room=room, steal=steal
        )
        if not self._read(claiming.due, claiming.parameters):
            return []  # a sweep that finds nothing writes nothing
        return await self._writer.write(writes.claim, claiming)

    async def renew(self, owner: str, threads: Sequence[ThreadId], *, lease_until: float) -> Sequence[ThreadId]:
        return await self._writer.write(writes.renew, (owner, threads, lease_until)) if threads else []

    async def release(self, claim: Claim, *, runnable_at: float | None) -> None:
        await self._writer.write(writes.release, (claim, runnable_at))

    async def next_due(self, *, full: Sequence[str] = ()) -> float | None:
        sql = "SELECT min(runnable_at) FROM threads WHERE owner IS NULL AND runnable_at IS NOT NULL"
        if full:
            sql += f" AND agent NOT IN ({', '.join('?' * len(full))})"
        return self._read(sql, tuple(full))[0][0]

    async def work(self, timeout: float) -> bool:
        with self._watched():
            return await self._waiting.for_work(timeout)

    async def unread(self, owner: str) -> Sequence[ThreadId]:
        sql = "SELECT id FROM threads WHERE owner = ? AND inbox_head > drained"
        return [ThreadId(id) for (id,) in self._read(sql, (owner,))]

    async def inbox(self, thread: ThreadId, *, after: int = 0, limit: int = 256) -> Sequence[StoredInbox]:
        return [
            StoredInbox(position=position, entry=InboxEntry(id=id, kind=kind, data=data, at=at))
            for position, id, kind, data, at in self._read(_INBOX, (thread, after, limit))
        ]

    async def events(self, thread: ThreadId, *, after: Seq = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        found: list[StoredEvent] = []
        try:
            for last, sizes, data in self._reader.execute(_EVENTS, (thread, after)):
                _split(found, after, last, sizes, data)
                if len(found) >= limit:
                    break
        except sqlite3.Error as error:
            raise unavailable(error, self._path) from error
        return found[:limit]

    async def row(self, thread: ThreadId) -> ThreadRow | None:
        return next(iter(self._rows("WHERE id = ?", (thread,))), None)

    async def rows(
        self,
        tenant: Tenant | None,
        *,
        status: Sequence[ThreadStatus] = (),
        agent: str | None = None,
        root: ThreadId | None = None,
        parent: ThreadId | None = None,
        roots_only: bool = False,
        before: tuple[float, ThreadId] | None = None,
        limit: int = 50,
    ) -> Sequence[ThreadRow]:
        where, parameters = _where(
            ("tenant = ?", tenant),
            ("agent = ?", agent),
            ("root = ?", root),
            ("parent = ?", parent),
            ("parent IS NULL AND ?", roots_only or None),
            (f"status IN ({', '.join('?' * len(status))})", tuple(status) or None),
            ("(created_at, id) < (?, ?)", before),
        )
        return self._rows(f"{where} ORDER BY created_at DESC, id DESC LIMIT ?", (*parameters, limit))

    async def find(self, tenant: Tenant | None, prefix: str) -> Sequence[ThreadId]:
        where, parameters = _where(("id >= ? AND id < ?", (prefix, prefix + "\U0010ffff")), ("tenant = ?", tenant))
        return [
            ThreadId(id) for (id,) in self._read(f"SELECT id FROM threads {where} ORDER BY id LIMIT 10", parameters)
        ]

    async def changed(self, thread: ThreadId, *, after: Seq, timeout: float) -> bool:
        if self._head(thread) > after:
            return True
        with self._watched():
            return await self._waiting.for_thread(thread, lambda: self._head(thread) > after, timeout)

    async def questions(
        self, tenant: Tenant | None, *, open: bool = True, root: ThreadId | None = None, thread: ThreadId | None = None
    ) -> Sequence[tuple[ThreadId, QuestionRow]]:
        where, parameters = _where(
            ("open = ?", open), ("tenant = ?", tenant), ("root = ?", root), ("threads.id = ?", thread)
        )
        return self._questions(f"{where} ORDER BY number", parameters)

    async def question(self, tenant: Tenant | None, id: QuestionId) -> tuple[ThreadId, QuestionRow] | None:
        return next(iter(self._questions(*_where(("questions.id = ?", id), ("tenant = ?", tenant)))), None)

    async def accounts(self, root: ThreadId) -> Sequence[Account]:
        sql = f"SELECT id, parent, cap_cost, cap_tokens, {', '.join(_ACCOUNT)} FROM threads WHERE root = ? ORDER BY key"
        return [
            Account(
                thread=id, parent=parent, caps=Caps(cost=cost, tokens=tokens), **dict(zip(_ACCOUNT, sums, strict=True))
            )
            for id, parent, cost, tokens, *sums in self._read(sql, (root,))
        ]

    async def close(self) -> None:
        await self._writer.close()
        self._reader.close()

    @contextmanager
    def _watched(self) -> Generator[None]:
        self._writer.watch()
        try:
            yield
        finally:
            self._writer.unwatch()

    def _head(self, thread: ThreadId) -> Seq:
        found = self._read("SELECT head FROM threads WHERE id = ?", (thread,))
        return found[0][0] if found else 0

    def _questions(self, sql: str, parameters: tuple[object, ...]) -> list[tuple[ThreadId, QuestionRow]]:
        return [
            (ThreadId(thread), QuestionRow(id=QuestionId(id), open=bool(open), data=data, expires=expires))
            for thread, id, open, data, expires in self._read(_QUESTION + sql, parameters)
        ]

    def _rows(self, sql: str, parameters: tuple[object, ...]) -> list[ThreadRow]:
        split = len(_ROW)
        return [
            ThreadRow(
                **dict(zip(_ROW, row[:split], strict=True)),
                listing=Listing(**dict(zip(writes.LISTED, row[split:], strict=True))),
            )
            for row in self._read(f"SELECT {', '.join(_ROW + writes.LISTED)} FROM threads {sql}", parameters)
        ]

    def _read(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return fetch(self._reader, self._path, sql, parameters)


def _where(*conditions: tuple[str, str | bool | tuple[object, ...] | None]) -> tuple[str, tuple[object, ...]]:
    """A clause of the conditions that have a value, and the values; a tuple is several."""
    clauses: list[str] = []
    values: list[object] = []
    for clause, value in conditions:
        if value is not None:
            clauses.append(clause)
            values += value if isinstance(value, tuple) else (value,)
    return f"WHERE {' AND '.join(clauses)}" if clauses else "", tuple(values)


def _split(found: list[StoredEvent], after: Seq, last: Seq, sizes: str | None, data: bytes) -> None:
    """Add the events of one row that come after `after`."""
    if sizes is None:
        found.append(StoredEvent(seq=last, data=data))
        return
    lengths = [int(size) for size in sizes.split(",")]
    start = 0
    for seq, length in enumerate(lengths, start=last - len(lengths) + 1):
        if seq > after:
            found.append(StoredEvent(seq=seq, data=data[start : start + length]))
        start += length
