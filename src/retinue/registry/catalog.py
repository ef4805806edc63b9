"""Which agent a name means, over every source at one moment.

A catalog is an immutable value made from the snapshots of all sources. It owns the
order of sources, the look-up (exact id, folded id, alias), what a match shadows and
what a failed source may hide. It reads nothing: `retinue.sources` makes the
snapshots and `retinue.app.catalog` replaces one catalog by the next.

Entries may decode when they are first touched, so building looks at ids only.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from retinue.definition.ids import agent_id, fold
from retinue.ports.source import Entry, Priority, Snapshot, SourceKind
from retinue.registry.near import near_names
from retinue.schema.agent import AgentDefinition, Category
from retinue.schema.errors import (
    AgentNotFound,
    AmbiguousAgent,
    DefinitionError,
    RetinueError,
    SourceUnavailable,
    Untrusted,
)
from retinue.schema.ids import AgentId
from retinue.schema.problem import has_errors

Status = Literal["ok", "warning", "error", "untrusted"]
Outcome = Literal["found", "absent", "shadowed", "not asked", "unavailable", "broken", "untrusted"]

_ORDER: tuple[SourceKind, ...] = ("project", "user", "config", "git", "package", "database", "code", "builtin", "a2a")
_RANK = {kind: rank for rank, kind in enumerate(_ORDER)}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One source that was asked for a name, and what it said."""

    source: str
    looked_for: str
    outcome: Outcome
    location: str = ""

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        return f"{self.source}: {self.looked_for} {self.outcome}{where}"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in its source, usable or not."""

    address: str
    """The id with the source's namespace: what people type."""
    entry: Entry
    snapshot: Snapshot

    @property
    def definition(self) -> AgentDefinition | None:
        """The definition under its address, which is what others call it by."""
        definition = self.entry.definition
        if definition is None or definition.id == self.address:
            return definition
        return msgspec.structs.replace(definition, id=AgentId(self.address))

    @property
    def is_remote(self) -> bool:
        return self.entry.definition is not None and self.entry.definition.kind == "remote"

    @property
    def status(self) -> Status:
        if self.entry.definition is None or has_errors(self.entry.problems):
            return "error"
        if not self.entry.trusted:
            return "untrusted"
        return "warning" if self.entry.problems else "ok"

    def __str__(self) -> str:
        return f"{self.address} of {self.snapshot.name} ({self.entry.location})"


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """S0's ResolvedAgent, with what it hides and where we looked."""

    address: str
    definition: AgentDefinition
    source: SourceKind
    origin: str
    """The source's own name, `git:main-agents`."""
    repository: str | None
    commit: str | None
    is_namespaced: bool
    priority: Priority
    location: str
    shadows: tuple[Found, ...] = ()
    tried: tuple[Place, ...] = ()


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    found: Found
    shadowed_by: str | None = None
    """The source whose entry of the same address wins."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """The first entry that a name fits, before anybody asked whether it may run."""

    found: Found
    shadows: tuple[Found, ...]
    tried: tuple[Place, ...]


_Candidate = tuple[int, AgentId]
_Index = dict[str, list[_Candidate]]


class Catalog:
    """Every agent of every source. Build a new one to change anything."""

    def __init__(self, snapshots: tuple[Snapshot, ...]) -> None:
        self.snapshots = snapshots
        self._exact: _Index = {}
        for index, snapshot in enumerate(snapshots):
            prefix = prefix_of(snapshot)
            for id in snapshot.entries:
                self._exact.setdefault(prefix + id, []).append((index, id))

    @classmethod
    def build(cls, snapshots: Iterable[Snapshot]) -> "Catalog":
        """Put the sources in order; those of one kind keep the order they came in."""
        return cls(tuple(sorted(snapshots, key=_rank)))

    def resolve(self, name: str) -> Resolved:
        """Return the agent that `name` means and may run.

        Raises:
            AgentNotFound, AmbiguousAgent, SourceUnavailable: nothing fits, two agents of one source do, or a failed
                source might.
            DefinitionError, Untrusted: the first match can't be used; what it hides is named, never used instead.
        """
        match = self.match(name)
        found, entry, snapshot = match.found, match.found.entry, match.found.snapshot
        definition = found.definition
        if definition is None or has_errors(entry.problems):
            raise _broken(match)
        if not entry.trusted:
            raise _untrusted(match)
        remote = definition.kind == "remote"
        return Resolved(
            address=found.address,
            definition=definition,
            source="a2a" if remote else snapshot.kind,
            origin=snapshot.name,
            repository=snapshot.repository,
            commit=snapshot.commit,
            is_namespaced=snapshot.namespace is not None,
            priority="external" if remote else snapshot.priority,
            location=entry.location,
            shadows=match.shadows,
            tried=match.tried,
        )

    def match(self, name: str) -> Match:
        """Return the first entry that `name` fits, also one that is broken or untrusted."""
        asked, bare = self._asked(name)
        remote: list[Found] = []
        for stage in (self._by_id, self._by_fold, self._by_alias):
            fits = [f for f in self._found(stage(bare)) if asked is None or f.snapshot.name in asked]
            local = [f for f in fits if not f.is_remote]
            remote = remote or [f for f in fits if f.is_remote]
            if local:
                return self._first(name, bare, local, asked)
        if remote:
            return self._first(name, bare, remote, asked)
        raise self._nothing(name, bare, asked)

    def tried(self, name: str) -> tuple[Place, ...]:
        """Where `name` is looked for and what each source says, whether or not it can be resolved."""
        try:
            return self.match(name).tried
        except RetinueError:
            asked, bare = self._asked(name)
            return self._places(bare, asked, None)

    def entries(self) -> Iterator[Listed]:
        """Everything, in the order of sources: also what is broken, untrusted, hidden or shadowed."""
        for index, snapshot in enumerate(self.snapshots):
            prefix = prefix_of(snapshot)
            for id, entry in snapshot.entries.items():
                address = prefix + id
                winner = self._winner(address)
                wins = winner.snapshot is self.snapshots[index] and winner.entry.id == entry.id
                found = Found(address=address, entry=entry, snapshot=snapshot)
                yield Listed(found=found, shadowed_by=None if wins else winner.snapshot.name)

    @cached_property
    def usable(self) -> tuple[Found, ...]:
        """The agents that win their address and may run."""
        return tuple(w.found for w in self.entries() if w.shadowed_by is None and w.found.status in ("ok", "warning"))

    def visible(self) -> tuple[AgentDefinition, ...]:
        """What people are shown, in display order."""
        return self._visible

    def by_category(self, category: Category) -> tuple[AgentDefinition, ...]:
        return tuple(d for d in self._definitions if d.category == category)

    def subagent_types(self) -> tuple[AgentDefinition, ...]:
        """What a caller without a list of its own may delegate to."""
        return tuple(d for d in self._visible if d.category in ("subagent", "all"))

    def winner(self, address: str) -> Found | None:
        """What `address` names exactly, usable or not."""
        return self._winner(address) if address in self._exact else None

    @property
    def addresses(self) -> Iterable[str]:
        return self._exact.keys()

    @cached_property
    def _definitions(self) -> tuple[AgentDefinition, ...]:
        return tuple(d for found in self.usable if (d := found.definition) is not None)

    @cached_property
    def _visible(self) -> tuple[AgentDefinition, ...]:
        shown = [d for d in self._definitions if not d.hidden and d.category != "hidden"]
        return tuple(sorted(shown, key=lambda d: (d.order, d.id)))

    def _winner(self, address: str) -> Found:
        fits = list(self._found(self._exact[address]))
        return next((f for f in fits if not f.is_remote), fits[0])

    def _by_id(self, name: str) -> Sequence[_Candidate]:
        return self._exact.get(name, ())

    def _by_fold(self, name: str) -> Sequence[_Candidate]:
        return self._folded.get(fold(name), ())

    def _by_alias(self, name: str) -> Sequence[_Candidate]:
        return self._aliases.get(fold(name), ())

    @cached_property
    def _folded(self) -> _Index:
        folded: _Index = {}
        for address, candidates in self._exact.items():
            folded.setdefault(fold(address), []).extend(candidates)
        return {key: sorted(candidates) for key, candidates in folded.items()}

    @cached_property
    def _aliases(self) -> _Index:
        aliases: _Index = {}
        for index, snapshot in enumerate(self.snapshots):
            prefix = prefix_of(snapshot)
            for id, entry in snapshot.entries.items():
                if entry.definition is None:
                    continue
                for alias in {fold(entry.definition.name), fold(entry.definition.slug or entry.definition.name)}:
                    aliases.setdefault(fold(prefix) + alias, []).append((index, id))
        return aliases

    def _found(self, candidates: Iterable[_Candidate]) -> Iterator[Found]:
        for index, id in candidates:
            snapshot = self.snapshots[index]
            yield Found(address=prefix_of(snapshot) + id, entry=snapshot.entries[id], snapshot=snapshot)

    def _asked(self, name: str) -> tuple[frozenset[str] | None, str]:
        """`builtin:coder` asks one source outright; a colon that names no source is part of the name."""
        at = name.rfind(":")
        while at > 0:
            prefix, bare = name[:at], name[at + 1 :]
            asked = frozenset(s.name for s in self.snapshots if prefix in (s.name, s.kind))
            if asked:
                return asked, bare
            at = name.rfind(":", 0, at)
        return None, name

    def _first(self, name: str, bare: str, fits: list[Found], asked: frozenset[str] | None) -> Match:
        first = fits[0]
        twins = [f for f in fits if f.snapshot is first.snapshot]
        if len(twins) > 1:
            both = " and ".join(f"{f.address} ({f.entry.location})" for f in twins)
            raise AmbiguousAgent(
                f"{name!r} fits {both} of {first.snapshot.name}", hint="ask for one of them by its full id"
            )
        return Match(found=first, shadows=tuple(fits[1:]), tried=self._places(bare, asked, first, fits[1:]))

    def _places(
        self, bare: str, asked: frozenset[str] | None, first: Found | None, shadowed: Sequence[Found] = ()
    ) -> tuple[Place, ...]:
        others = {f.snapshot.name: f for f in shadowed}
        places: list[Place] = []
        for snapshot in self.snapshots:
            hit = first if first is not None and snapshot is first.snapshot else others.get(snapshot.name)
            outcome: Outcome = "absent"
            if asked is not None and snapshot.name not in asked:
                continue
            if hit is not None:
                outcome = _outcome(hit) if hit is first else "shadowed"
            elif _failed(snapshot):
                outcome = "unavailable"
            elif snapshot.namespace is not None and not bare.startswith(prefix_of(snapshot)):
                outcome = "not asked"
            location = hit.entry.location if hit is not None else ""
            places.append(Place(source=snapshot.name, looked_for=bare, outcome=outcome, location=location))
        return tuple(places)

    def _nothing(self, name: str, bare: str, asked: frozenset[str] | None) -> Exception:
        places = self._places(bare, asked, None)
        sources = [s for s in self.snapshots if asked is None or s.name in asked]
        for snapshot in sources:
            if _failed(snapshot) and fold(bare).startswith(fold(prefix_of(snapshot))):
                return SourceUnavailable(
                    f"{name!r} may be in {snapshot.name}, which can't be read: {snapshot.error}",
                    hint="retinue doctor says what is wrong with each source",
                )
        for problem in (p for s in sources for p in s.problems):
            id = agent_id(problem.file.rpartition(":")[2].lstrip("/"))
            if id is not None and f"/{id}".endswith(f"/{bare}"):
                return DefinitionError(f"{name!r} is not an agent: {problem.message}", (problem,), hint=problem.hint)
        looked = ", ".join(dict.fromkeys(p.source for p in places if p.outcome != "not asked")) or "no source"
        message = f"there is no agent {name!r}: looked for id, folded id and name in {looked}"
        return AgentNotFound(message, tried=[str(p) for p in places], near=near_names(bare, self._exact))


def _rank(snapshot: Snapshot) -> tuple[int, int]:
    return _RANK[snapshot.kind], 0 if snapshot.namespace is None else 1 + snapshot.namespace.count("/")


def prefix_of(snapshot: Snapshot) -> str:
    return f"{snapshot.namespace}/" if snapshot.namespace is not None else ""


def _failed(snapshot: Snapshot) -> bool:
    return snapshot.error is not None and not snapshot.stale


def _outcome(found: Found) -> Outcome:
    by_status: dict[Status, Outcome] = {"error": "broken", "untrusted": "untrusted"}
    return by_status.get(found.status, "found")


def _hides(match: Match) -> str:
    return f"; it hides {', '.join(map(str, match.shadows))}" if match.shadows else ""


def _broken(match: Match) -> DefinitionError:
    problems = match.found.entry.problems
    first = next((p for p in problems if p.severity == "error"), None)
    why = f": {first}" if first is not None else ""
    return DefinitionError(
        f"{match.found} can't be used{_hides(match)}{why}",
        problems,
        hint="correct it, or name another source",
    )


def _untrusted(match: Match) -> Untrusted:
    return Untrusted(
        f"{match.found} is not trusted yet{_hides(match)}",
        hint=f"read it, then: retinue agents trust {match.found.address}",
    )
