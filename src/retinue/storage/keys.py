"""API keys, answers to repeated requests and webhook deliveries: `retinue.ports.keys` on SQLite."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import json

from retinue.ports.keys import Answer, ApiKey
from retinue.schema.ids import Tenant
from retinue.storage.connection import fetch
from retinue.storage.tables import Executes, Table

ANSWERS_KEPT = 86_400.0
DELIVERIES_KEPT = 30 * 86_400.0
_KEY = ("id", "name", "tenant", "scopes", "digest", "created_at", "expires", "revoked_at", "used_at")


class KeyTable(Table):
    """`retinue.ports.keys.Keys`."""

    async def add(self, key: ApiKey) -> None:
        row = [getattr(key, column) for column in _KEY]
        row[3] = json.encode(key.scopes).decode()
        await self._write(_run, (f"INSERT INTO keys VALUES (?{', ?' * (len(_KEY) - 1)})", *row))

    async def get(self, id: str) -> ApiKey | None:
        return next(iter(self._select("WHERE id = ?", (id,))), None)

    async def all(self, tenant: Tenant | None) -> Sequence[ApiKey]:
        return self._select("WHERE ?1 IS NULL OR tenant = ?1 ORDER BY created_at, id", (tenant,))

    async def revoke(self, tenant: Tenant | None, id: str, *, now: float) -> bool:
        sql = "UPDATE keys SET revoked_at = ? WHERE id = ? AND (?3 IS NULL OR tenant = ?3) AND revoked_at IS NULL"
        return await self._write(_run, (sql, now, id, tenant)) > 0

    async def used(self, id: str, *, now: float) -> None:
        await self._write(_run, ("UPDATE keys SET used_at = ? WHERE id = ?", now, id))

    def _select(self, where: str, parameters: tuple[object, ...]) -> list[ApiKey]:
        rows = fetch(self._reader, self._path, f"SELECT {', '.join(_KEY)} FROM keys {where}", parameters)
        return [msgspec.convert({**dict(zip(_KEY, r, strict=True)), "scopes": json.decode(r[3])}, ApiKey) for r in rows]


class AnswerTable(Table):
    """`retinue.ports.keys.Answers`."""

    async def begin(self, key: str, *, fingerprint: str, owner: str, now: float) -> Answer | None:
        return await self._write(_begin, _Request(key, fingerprint, owner, now))

    async def finish(self, key: str, *, status: int, body: str) -> None:
        await self._write(_run, ("UPDATE answers SET status = ?, body = ? WHERE key = ?", status, body, key))

    async def forget(self, key: str) -> None:
        await self._write(_run, ("DELETE FROM answers WHERE key = ?", key))


class DeliveryTable(Table):
    """`retinue.ports.keys.Deliveries`."""

    async def first(self, repository: str, id: str, *, now: float) -> bool:
        return await self._write(_deliver, (repository, id, now))


class _Request(NamedTuple):
    key: str
    fingerprint: str
    owner: str
    now: float


def _begin(transaction: Executes, request: _Request) -> Answer | None:
    transaction.execute("DELETE FROM answers WHERE at < ?", (request.now - ANSWERS_KEPT,))
    sql = "SELECT fingerprint, owner, status, body FROM answers WHERE key = ?"
    found = transaction.execute(sql, (request.key,)).fetchone()
    if found is None:
        row = (request.key, request.fingerprint, request.owner, request.now)
        transaction.execute("INSERT INTO answers VALUES (?, ?, ?, 0, NULL, ?)", row)
        return None
    fingerprint, owner, status, body = found
    if body is None and owner != request.owner and fingerprint == request.fingerprint:
        transaction.execute("UPDATE answers SET owner = ? WHERE key = ?", (request.owner, request.key))
        return None
    return Answer(fingerprint=fingerprint, owner=owner, status=status, body=body)


def _deliver(transaction: Executes, delivery: tuple[str, str, float]) -> bool:
    transaction.execute("DELETE FROM deliveries WHERE at < ?", (delivery[2] - DELIVERIES_KEPT,))
    return transaction.execute("INSERT OR IGNORE INTO deliveries VALUES (?, ?, ?)", delivery).rowcount > 0


def _run(transaction: Executes, statement: tuple[str, *tuple[object, ...]]) -> int:
    sql, *parameters = statement
    return transaction.execute(sql, parameters).rowcount
