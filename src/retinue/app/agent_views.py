"""Agents as surfaces list, show and resolve them."""

from collections.abc import Iterable

import msgspec

from retinue.ports.source import Priority, SourceKind
from retinue.registry.catalog import Catalog, Found, Listed, Place, Resolved, Status
from retinue.schema.agent import AgentDefinition, Category, Kind
from retinue.schema.problem import Problem, Severity


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a file that is named beside it."""

    code: str
    severity: Severity
    line: int
    message: str
    hint: str | None


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the catalog, usable or not."""

    id: str
    name: str | None
    description: str | None
    category: Category | None
    kind: Kind | None
    hidden: bool | None
    source: SourceKind
    origin: str
    repository: str | None
    commit: str | None
    priority: Priority
    location: str
    hash: str
    status: Status
    trusted: bool
    problems: list[Noted]
    shadowed_by: str | None = None
    """The source whose entry of the same id wins."""


class Shadow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that another one of the same name hides."""

    id: str
    source: SourceKind
    origin: str
    location: str


class ResolvedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """S0's, with what it hides and where we looked."""

    agent: AgentDefinition
    id: str
    source: SourceKind
    origin: str
    repository: str | None
    commit: str | None
    is_namespaced: bool = msgspec.field(name="isNamespaced")
    priority: Priority
    location: str
    shadows: list[Shadow]
    tried: list[Place]


def listed(catalog: Catalog, *, category: str | None, source: str | None, everything: bool) -> list[Listed]:
    """The entries of every source: those that win their address and are not hidden, or everything."""
    return [entry for entry in catalog.entries() if _wanted(entry, category, source, everything=everything)]


def agent(found: Found, shadowed_by: str | None = None) -> Agent:
    definition, snapshot = found.entry.definition, found.snapshot
    return Agent(
        id=found.address,
        name=definition.name if definition else None,
        description=definition.description if definition else None,
        category=definition.category if definition else None,
        kind=definition.kind if definition else None,
        hidden=definition.hidden if definition else None,
        source=snapshot.kind,
        origin=snapshot.name,
        repository=snapshot.repository,
        commit=snapshot.commit,
        priority="external" if found.is_remote else snapshot.priority,
        location=found.entry.location,
        hash=found.entry.hash,
        status=found.status,
        trusted=found.entry.trusted,
        problems=[noted(p) for p in found.entry.problems],
        shadowed_by=shadowed_by,
    )


def resolved_agent(resolved: Resolved) -> ResolvedAgent:
    return ResolvedAgent(
        agent=resolved.definition,
        id=resolved.address,
        source=resolved.source,
        origin=resolved.origin,
        repository=resolved.repository,
        commit=resolved.commit,
        is_namespaced=resolved.is_namespaced,
        priority=resolved.priority,
        location=resolved.location,
        shadows=shadows(resolved.shadows),
        tried=list(resolved.tried),
    )


def shadows(hidden: Iterable[Found]) -> list[Shadow]:
    return [
        Shadow(id=f.address, source=f.snapshot.kind, origin=f.snapshot.name, location=f.entry.location) for f in hidden
    ]


def noted(problem: Problem) -> Noted:
    return msgspec.convert(problem, Noted, from_attributes=True)


def _wanted(entry: Listed, category: str | None, source: str | None, *, everything: bool) -> bool:
    found, definition = entry.found, entry.found.entry.definition
    if source is not None and source not in (found.snapshot.name, found.snapshot.kind):
        return False
    if category is not None:
        return definition is not None and definition.category == category and (everything or not entry.shadowed_by)
    if everything:
        return True
    is_hidden = definition is not None and (definition.hidden or definition.category == "hidden")
    return not is_hidden and entry.shadowed_by is None
