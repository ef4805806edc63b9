"""Custom agents in the database: S3's registry of what people define at run time."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from retinue.schema.ids import Tenant


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row: S3's fields as canonical frontmatter, plus what only we set."""

    id: str
    slug: str
    fields: Mapping[str, object]
    created_at: float
    updated_at: float | None = None
    tenant: str = "default"
    override: bool = False
    """It may replace a built-in of the same slug."""


class AgentRecords(Protocol):
    async def create(self, record: AgentRecord) -> None: ...
    async def update(self, record: AgentRecord) -> None: ...
    async def delete(self, tenant: Tenant, id: str) -> bool: ...
    async def get(self, tenant: Tenant, id_or_slug: str) -> AgentRecord | None: ...
    async def all(self, tenant: Tenant) -> Sequence[AgentRecord]: ...
