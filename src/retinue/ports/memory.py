"""What agents remember across runs, and what people have granted."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from retinue.schema.ids import Tenant, ThreadId


class MemoryItem(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    """An agent's id, or a shared namespace."""
    key: str
    value: bytes
    """JSON."""
    expires: float | None = None
    updated_at: float
    taints: tuple[str, ...] = ()


class Memory(Protocol):
    async def save(self, tenant: Tenant, item: MemoryItem) -> None: ...
    async def load(self, tenant: Tenant, namespace: str, key: str, *, now: float) -> MemoryItem | None:
        """None when absent or expired."""
        ...

    async def list(self, tenant: Tenant, namespace: str | None, *, now: float) -> Sequence[MemoryItem]: ...
    async def delete(self, tenant: Tenant, namespace: str, key: str) -> bool: ...


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that turns ask into allow, and nothing else."""

    number: int = 0
    """Given by the store; what `permissions revoke` takes."""
    tenant: str = "default"
    thread: ThreadId | None = None
    """None: saved for the user (`always`)."""
    tool: str
    pattern: str
    exact: str | None = None
    """SHA-256 of the exact call, for grants that bind to its arguments."""
    definition_hash: str = ""
    created_at: float
    question: str = ""


class Grants(Protocol):
    async def add(self, grant: Grant) -> int: ...
    async def of(self, tenant: Tenant, thread: ThreadId | None) -> Sequence[Grant]:
        """Those of the thread and those saved for the user."""
        ...

    async def all(self, tenant: Tenant) -> Sequence[Grant]: ...
    async def revoke(self, tenant: Tenant, number: int) -> bool: ...
