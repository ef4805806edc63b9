"""Where definitions come from."""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

SourceKind = Literal["project", "user", "config", "git", "package", "database", "code", "builtin", "a2a"]
Priority = Literal["root", "namespaced", "external", "local"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One file, row or value that is, or tried to be, an agent."""

    id: AgentId
    """Without the source's namespace."""
    definition: AgentDefinition | None
    """None: rejected; `problems` say why."""
    problems: tuple[Problem, ...] = ()
    location: str = ""
    """The file as a person would name it, or `database:slug`."""
    hash: str = ""
    trusted: bool = True


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a source held at one moment. `error` set: it could not be read, and may own any name."""

    name: str
    """Unique among sources: `project`, `user`, `git:main-agents`, `builtin`, …"""
    kind: SourceKind
    entries: Mapping[AgentId, Entry]
    namespace: str | None = None
    """For namespaced repositories: the prefix their ids are addressed by."""
    priority: Priority = "local"
    repository: str | None = None
    commit: str | None = None
    problems: tuple[Problem, ...] = ()
    """Of the source itself, and of files that are no entry."""
    error: str | None = None
    stale: bool = False
    """The last good snapshot, kept because a newer one could not be had."""


class Source(Protocol):
    """A place that can be read again. `load` never raises for bad files: they are problems."""

    @property
    def name(self) -> str: ...

    async def load(self, previous: Snapshot | None) -> Snapshot:
        """Read the source; unchanged entries may be taken from `previous`."""
        ...
