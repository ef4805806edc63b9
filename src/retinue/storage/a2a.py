"""Tasks of A2A callers and their push notifications: `retinue.ports.a2a` on SQLite.

A table and not a part of the log, because callers list tasks by context and by
when they last changed, and no event may hold what only one surface needs.
"""

from collections.abc import Sequence

import msgspec

from retinue.ports.a2a import PushRow, TaskFilter, TaskRow
from retinue.schema.ids import Seq, ThreadId
from retinue.storage.connection import fetch
from retinue.storage.tables import Executes, Table

_TASK = ("thread", "tenant", "caller", "agent", "context", "created_at")
_PUSH = ("thread", "id", "config", "sent")
_JOINED = "FROM a2a_tasks AS a JOIN threads AS t ON t.id = a.thread"
_SELECT = f"SELECT {', '.join(f'a.{column}' for column in _TASK)}, t.updated_at {_JOINED}"


class A2aTable(Table):
    """`retinue.ports.a2a.A2aTasks`."""

    async def add(self, task: TaskRow) -> None:
        row = [getattr(task, column) for column in _TASK]
        await self._write(_run, (f"INSERT OR IGNORE INTO a2a_tasks VALUES (?{', ?' * (len(_TASK) - 1)})", *row))

    async def get(self, thread: ThreadId) -> TaskRow | None:
        return next(iter(self._tasks("WHERE a.thread = ?", (thread,))), None)

    async def page(
        self, wanted: TaskFilter, *, before: tuple[float, ThreadId] | None = None, limit: int = 50
    ) -> Sequence[TaskRow]:
        where, values = _where(wanted)
        if before is not None:
            where += " AND (t.updated_at, a.thread) < (?, ?)"
            values += before
        return self._tasks(f"{where} ORDER BY t.updated_at DESC, a.thread DESC LIMIT ?", (*values, limit))

    async def count(self, wanted: TaskFilter) -> int:
        where, values = _where(wanted)
        rows = fetch(self._reader, self._path, f"SELECT count(*) {_JOINED} {where}", values)
        return next(iter(rows))[0]

    async def set_push(self, push: PushRow) -> None:
        row = [getattr(push, column) for column in _PUSH]
        await self._write(_run, ("INSERT OR REPLACE INTO a2a_pushes VALUES (?, ?, ?, ?)", *row))

    async def pushes(self, thread: ThreadId | None = None) -> Sequence[PushRow]:
        sql = f"SELECT {', '.join(_PUSH)} FROM a2a_pushes WHERE ?1 IS NULL OR thread = ?1 ORDER BY thread, id"
        rows = fetch(self._reader, self._path, sql, (thread,))
        return [msgspec.convert(dict(zip(_PUSH, row, strict=True)), PushRow) for row in rows]

    async def pushed(self, thread: ThreadId, id: str, sent: Seq) -> None:
        await self._write(_run, ("UPDATE a2a_pushes SET sent = ? WHERE thread = ? AND id = ?", sent, thread, id))

    async def delete_push(self, thread: ThreadId, id: str) -> None:
        await self._write(_run, ("DELETE FROM a2a_pushes WHERE thread = ? AND id = ?", thread, id))

    def _tasks(self, where: str, values: tuple[object, ...]) -> list[TaskRow]:
        rows = fetch(self._reader, self._path, f"{_SELECT} {where}", values)
        names = (*_TASK, "updated_at")
        return [msgspec.convert(dict(zip(names, row, strict=True)), TaskRow) for row in rows]


def _where(wanted: TaskFilter) -> tuple[str, tuple[object, ...]]:
    terms: list[tuple[str, tuple[object, ...]]] = [("a.tenant = ? AND a.caller = ?", (wanted.tenant, wanted.caller))]
    if wanted.agent is not None:
        terms.append(("a.agent = ?", (wanted.agent,)))
    if wanted.context is not None:
        terms.append(("a.context = ?", (wanted.context,)))
    if wanted.after is not None:
        terms.append(("t.updated_at >= ?", (wanted.after,)))
    if wanted.statuses:
        terms.append((f"t.status IN (?{', ?' * (len(wanted.statuses) - 1)})", wanted.statuses))
    values = tuple(value for _, given in terms for value in given)
    return "WHERE " + " AND ".join(sql for sql, _ in terms), values


def _run(transaction: Executes, statement: tuple[str, *tuple[object, ...]]) -> int:
    sql, *parameters = statement
    return transaction.execute(sql, parameters).rowcount
