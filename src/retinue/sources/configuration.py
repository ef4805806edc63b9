"""Agents written in the settings, in S3's spelling or ours: `agents.custom[]`, and external ones in `remote_agents[]`.

Calling external agents is for `retinue.remotes`; a file of any folder may define one
too, and the catalog asks all of them last.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from retinue.ports.source import Entry, Priority, Snapshot
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem
from retinue.sources.fields import fields_entry, slug_of


class ConfiguredAgents(msgspec.Struct, frozen=True, kw_only=True):
    """The agents of one settings file."""

    file: str
    agents: Sequence[Mapping[str, object]]
    trusted: bool


class ConfigurationSource:
    """The agents of all settings files, the strongest file first."""

    def __init__(self, files: Sequence[ConfiguredAgents], *, remote: bool = False) -> None:
        self.name: Literal["config", "a2a"] = "a2a" if remote else "config"
        self._files = files
        self._section = "remote_agents" if remote else "agents.custom"
        self._given: dict[str, object] = {"kind": "remote"} if remote else {}
        self._priority: Priority = "external" if remote else "local"

    async def load(self, previous: Snapshot | None) -> Snapshot:
        entries: dict[AgentId, Entry] = {}
        problems: list[Problem] = []
        for file in self._files:
            for index, fields in enumerate(file.agents):
                location = f"{file.file}#{self._section}[{index}]"
                id = slug_of(fields)
                if id is None:
                    problems.append(_problem(location, "missing-key", "has neither Slug nor Name"))
                elif AgentId(id) in entries:
                    first = entries[AgentId(id)].location
                    problems.append(_problem(location, "duplicate-id", f"has the id {id!r} of {first}"))
                else:
                    entries[AgentId(id)] = fields_entry(
                        {**self._given, **fields}, location=location, id=id, trusted=file.trusted
                    )
        return Snapshot(
            name=self.name, kind=self.name, priority=self._priority, entries=entries, problems=tuple(problems)
        )


def _problem(location: str, code: str, message: str) -> Problem:
    return Problem(code=code, severity="warning", message=message, file=location)
