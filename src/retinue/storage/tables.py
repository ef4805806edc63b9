"""Custom agents, memory and grants: small tables, read and written row by row.

Their coroutines suspend only where `write` does, so a command can use
`open_records` without an event loop.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from retinue.ports.memory import Grant, MemoryItem
from retinue.ports.records import AgentRecord
from retinue.schema.errors import AgentNotFound, Conflict
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.connection import connect, fetch, unavailable
from retinue.storage.schema import migrate

_A = TypeVar("_A")
_R = TypeVar("_R")

_AGENT = "SELECT id, slug, fields, created_at, updated_at, tenant, override FROM agents"
_MEMORY = "SELECT namespace, key, value, expires, updated_at, taints FROM memory"
_GRANT = ("number", "tenant", "thread", "tool", "pattern", "exact", "definition_hash", "created_at", "question")


class Executes(Protocol):
    """The part of a transaction that these tables need."""

    @property
    def execute(self) -> Callable[..., sqlite3.Cursor]: ...


class Write(Protocol):
    """Runs work in a transaction and returns when that is on disk."""

    def __call__(self, work: Callable[[Executes, _A], _R], argument: _A) -> Awaitable[_R]: ...


@contextmanager
def open_records(path: Path) -> "Generator[RecordTable]":
    """The custom agents on a connection of their own, for commands that need nothing else of the database.

    It creates the file when there is none: who only reads looks first.

    Raises:
        StoreUnavailable: as `retinue.storage.sqlite.open_database`.
    """
    connection = connect(path)

    async def write(work: Callable[[Executes, _A], _R], argument: _A) -> _R:
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                return work(connection, argument)
        except sqlite3.Error as error:
            raise unavailable(error, path) from error

    try:
        migrate(connection, path)
        yield RecordTable(path, connection, write)
    finally:
        connection.close()


class Table:
    def __init__(self, path: Path, reader: sqlite3.Connection, write: Write) -> None:
        self._path = path
        self._reader = reader
        self._write = write


class RecordTable(Table):
    """`retinue.ports.records.AgentRecords`."""

    async def create(self, record: AgentRecord) -> None:
        """Raises Conflict when the tenant has an agent with that id or slug."""
        await self._write(_insert_agent, record)

    async def update(self, record: AgentRecord) -> None:
        """Raises AgentNotFound, or Conflict when the new slug is another's."""
        await self._write(_update_agent, record)

    async def delete(self, tenant: Tenant, id: str) -> bool:
        return await self._write(_delete, ("DELETE FROM agents WHERE tenant = ? AND id = ?", tenant, id))

    async def get(self, tenant: Tenant, id_or_slug: str) -> AgentRecord | None:
        where = "WHERE tenant = ? AND (id = ? OR slug = ?) ORDER BY id = ? DESC LIMIT 1"
        return next(iter(self._select(where, (tenant, id_or_slug, id_or_slug, id_or_slug))), None)

    async def all(self, tenant: Tenant) -> Sequence[AgentRecord]:
        return self._select("WHERE tenant = ? ORDER BY created_at, id", (tenant,))

    def _select(self, where: str, parameters: tuple[object, ...]) -> list[AgentRecord]:
        return [
            AgentRecord(
                id=id,
                slug=slug,
                fields=msgspec.json.decode(fields, type=dict[str, object]),
                created_at=created_at,
                updated_at=updated_at,
                tenant=tenant,
                override=bool(override),
            )
            for id, slug, fields, created_at, updated_at, tenant, override in fetch(
                self._reader, self._path, f"{_AGENT} {where}", parameters
            )
        ]


class MemoryTable(Table):
    """`retinue.ports.memory.Memory`."""

    async def save(self, tenant: Tenant, item: MemoryItem) -> None:
        await self._write(_save_memory, (tenant, item))

    async def load(self, tenant: Tenant, namespace: str, key: str, *, now: float) -> MemoryItem | None:
        found = self._select("AND namespace = ? AND key = ?", (tenant, now, namespace, key))
        return found[0] if found else None

    async def list(self, tenant: Tenant, namespace: str | None, *, now: float) -> Sequence[MemoryItem]:
        where = "AND namespace = ?" if namespace is not None else ""
        parameters = (tenant, now) if namespace is None else (tenant, now, namespace)
        return self._select(f"{where} ORDER BY namespace, key", parameters)

    async def delete(self, tenant: Tenant, namespace: str, key: str) -> bool:
        sql = "DELETE FROM memory WHERE tenant = ? AND namespace = ? AND key = ?"
        return await self._write(_delete, (sql, tenant, namespace, key))

    def _select(self, where: str, parameters: tuple[object, ...]) -> "Sequence[MemoryItem]":
        sql = f"{_MEMORY} WHERE tenant = ? AND (expires IS NULL OR expires > ?) {where}"
        return [
            MemoryItem(
                namespace=namespace,
                key=key,
                value=value,
                expires=expires,
                updated_at=updated_at,
                taints=msgspec.json.decode(taints, type=tuple[str, ...]),
            )
            for namespace, key, value, expires, updated_at, taints in fetch(self._reader, self._path, sql, parameters)
        ]


class GrantTable(Table):
    """`retinue.ports.memory.Grants`."""

    async def add(self, grant: Grant) -> int:
        return await self._write(_add_grant, grant)

    async def of(self, tenant: Tenant, thread: ThreadId | None) -> Sequence[Grant]:
        return self._select("WHERE tenant = ? AND (thread IS NULL OR thread = ?) ORDER BY number", (tenant, thread))

    async def all(self, tenant: Tenant) -> Sequence[Grant]:
        return self._select("WHERE tenant = ? ORDER BY number", (tenant,))

    async def revoke(self, tenant: Tenant, number: int) -> bool:
        return await self._write(_delete, ("DELETE FROM grants WHERE tenant = ? AND number = ?", tenant, number))

    def _select(self, where: str, parameters: tuple[object, ...]) -> list[Grant]:
        rows = fetch(self._reader, self._path, f"SELECT {', '.join(_GRANT)} FROM grants {where}", parameters)
        return [Grant(**dict(zip(_GRANT, row, strict=True))) for row in rows]


def _insert_agent(transaction: Executes, record: AgentRecord) -> None:
    _refuse_taken(transaction, record, "(id = ?2 OR slug = ?3)")
    fields = msgspec.json.encode(record.fields)
    row = (record.tenant, record.id, record.slug, fields, record.created_at, record.updated_at, record.override)
    transaction.execute("INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _update_agent(transaction: Executes, record: AgentRecord) -> None:
    _refuse_taken(transaction, record, "slug = ?3 AND id <> ?2")
    sql = "UPDATE agents SET slug = ?, fields = ?, updated_at = ?, override = ? WHERE tenant = ? AND id = ?"
    fields = msgspec.json.encode(record.fields)
    row = (record.slug, fields, record.updated_at, record.override, record.tenant, record.id)
    if transaction.execute(sql, row).rowcount == 0:
        raise AgentNotFound(f"there is no custom agent {record.id}")


def _refuse_taken(transaction: Executes, record: AgentRecord, condition: str) -> None:
    sql = f"SELECT id, slug FROM agents WHERE tenant = ?1 AND {condition}"
    taken = transaction.execute(sql, (record.tenant, record.id, record.slug)).fetchone()
    if taken is not None:
        what = f"id {record.id!r}" if taken[0] == record.id else f"slug {record.slug!r}"
        raise Conflict(f"there is a custom agent with the {what} already", hint="choose another, or update that one")


def _save_memory(transaction: Executes, saved: tuple[Tenant, MemoryItem]) -> None:
    tenant, item = saved
    taints = msgspec.json.encode(item.taints)
    row = (tenant, item.namespace, item.key, item.value, item.expires, item.updated_at, taints)
    transaction.execute("INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    expired = "DELETE FROM memory WHERE tenant = ? AND namespace = ? AND expires <= ?"
    transaction.execute(expired, (tenant, item.namespace, item.updated_at))


def _add_grant(transaction: Executes, grant: Grant) -> int:
    sql = f"INSERT INTO grants VALUES (NULL{', ?' * (len(_GRANT) - 1)}) RETURNING number"
    return transaction.execute(sql, [getattr(grant, column) for column in _GRANT[1:]]).fetchone()[0]


def _delete(transaction: Executes, statement: tuple[str, *tuple[object, ...]]) -> bool:
    sql, *parameters = statement
    return transaction.execute(sql, parameters).rowcount > 0
