"""Custom agents of the database (S3's registry): the source, and create, update, delete.

The checks are `retinue.registry.records`; the rows are kept by an `AgentRecords` of the store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from retinue.definition.load import load_fields
from retinue.ports.records import AgentRecord, AgentRecords
from retinue.ports.source import Snapshot
from retinue.registry.records import CHECKED, canonical_fields, changed_record, check, new_record
from retinue.schema.errors import AgentNotFound, DefinitionError, Denied, RetinueError
from retinue.schema.ids import DEFAULT_TENANT, AgentId, Tenant
from retinue.schema.problem import Problem
from retinue.sources.fields import fields_entry


class DatabaseSource:
    """The rows of one tenant. A row of a built-in's slug counts only with `override`."""

    name = "database"

    def __init__(self, records: AgentRecords, tenant: Tenant = DEFAULT_TENANT) -> None:
        self._records = records
        self._tenant = tenant

    async def load(self, previous: Snapshot | None) -> Snapshot:
        try:
            rows = await self._records.all(self._tenant)
        except RetinueError as e:
            return Snapshot(name=self.name, kind="database", entries={}, error=e.message)
        entries = {AgentId(r.slug): fields_entry(r.fields, location=f"database:{r.slug}", id=r.slug) for r in rows}
        return Snapshot(name=self.name, kind="database", entries=entries)


class CustomAgents:
    """Management of one tenant's custom agents. Every write is checked whole before it happens."""

    def __init__(
        self,
        records: AgentRecords,
        *,
        builtin: Collection[str],
        now: Callable[[], float],
        new_id: Callable[[], str],
        tenant: Tenant = DEFAULT_TENANT,
    ) -> None:
        self._records = records
        self._builtin = builtin
        self._now = now
        self._new_id = new_id
        self._tenant = tenant

    async def create(self, fields: Mapping[str, object], *, override: bool = False) -> AgentRecord:
        """Add an agent.

        Raises:
            DefinitionError: Carries everything that is wrong with it.
        """
        record = new_record(
            canonical_fields(fields), id=self._new_id(), now=self._now(), tenant=self._tenant, override=override
        )
        await self._check(record)
        await self._records.create(record)
        return record

    async def update(
        self, id_or_slug: str, fields: Mapping[str, object], *, override: bool | None = None
    ) -> AgentRecord:
        """Put `fields` over those of the agent; a null takes one back."""
        old = await self._own(id_or_slug)
        record = changed_record(old, canonical_fields(fields), now=self._now(), override=override)
        await self._check(record)
        await self._records.update(record)
        return record

    async def delete(self, id_or_slug: str) -> AgentRecord:
        record = await self._own(id_or_slug)
        await self._records.delete(self._tenant, record.id)
        return record

    async def get(self, id_or_slug: str) -> AgentRecord | None:
        return await self._records.get(self._tenant, id_or_slug)

    async def all(self) -> Sequence[AgentRecord]:
        return await self._records.all(self._tenant)

    async def by_category(self, category: str) -> Sequence[AgentRecord]:
        return [r for r in await self.all() if str(r.fields.get("category", "all")).lower() == category]

    async def _own(self, id_or_slug: str) -> AgentRecord:
        record = await self.get(id_or_slug)
        if record is not None:
            return record
        if id_or_slug in self._builtin:
            raise Denied(
                f"{id_or_slug!r} is built in and can't be changed or deleted",
                hint="create an agent of that slug with override to replace it",
            )
        raise AgentNotFound(f"there is no custom agent {id_or_slug!r} in the database")

    async def _check(self, record: AgentRecord) -> None:
        taken = {r.slug: r.id for r in await self.all()}
        errors = check(record.fields, taken=taken, builtin=self._builtin, id=record.id, override=record.override)
        location = f"database:{record.slug or record.id}"
        problems = [Problem(code="bad-record", severity="error", message=e, file=location) for e in errors]
        others = {key: value for key, value in record.fields.items() if key not in CHECKED}
        loaded = load_fields(others, file=location, id=AgentId(record.slug))
        problems += [p for p in loaded.problems if p.severity == "error" and p.code != "no-id"]
        if problems:
            said = "; ".join(p.message for p in problems)
            raise DefinitionError(f"invalid agent: {said}", problems)
