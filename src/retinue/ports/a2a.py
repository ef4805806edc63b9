"""What the A2A surface keeps beside the log: whose tasks threads are, and where their news is pushed to."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from retinue.schema.ids import Seq, Tenant, ThreadId
from retinue.schema.thread import ThreadStatus


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that somebody started over A2A; `caller` is the name of their key."""

    thread: ThreadId
    tenant: Tenant
    caller: str
    agent: str
    context: str
    created_at: float
    updated_at: float = 0.0
    """Of the thread; filled when rows are read."""


class PushRow(msgspec.Struct, frozen=True, kw_only=True):
    thread: ThreadId
    id: str
    config: str
    """Sealed: it may hold a token."""
    sent: Seq = 0
    """Events up to here were delivered."""


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    tenant: Tenant
    caller: str
    agent: str | None = None
    context: str | None = None
    statuses: tuple[ThreadStatus, ...] = ()
    after: float | None = None
    """Changed at or after this."""


class A2aTasks(Protocol):
    async def add(self, task: TaskRow) -> None:
        """Before its thread is created; a row without a thread is never seen."""
        ...

    async def get(self, thread: ThreadId) -> TaskRow | None: ...

    async def page(
        self, wanted: TaskFilter, *, before: tuple[float, ThreadId] | None = None, limit: int = 50
    ) -> Sequence[TaskRow]:
        """Last changed first."""
        ...

    async def count(self, wanted: TaskFilter) -> int: ...

    async def set_push(self, push: PushRow) -> None: ...

    async def pushes(self, thread: ThreadId | None = None) -> Sequence[PushRow]: ...

    async def pushed(self, thread: ThreadId, id: str, sent: Seq) -> None: ...

    async def delete_push(self, thread: ThreadId, id: str) -> None: ...
