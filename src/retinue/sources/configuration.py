"""Agents written in the settings: `agents.custom[]`, in S3's spelling or ours."""

from collections.abc import Mapping, Sequence

import msgspec

from retinue.ports.source import Entry, Snapshot
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem
from retinue.sources.fields import fields_entry, slug_of


class ConfiguredAgents(msgspec.Struct, frozen=True, kw_only=True):
    """The agents of one settings file."""

    file: str
    agents: Sequence[Mapping[str, object]]
    trusted: bool


class ConfigurationSource:
    """The custom agents of all settings files, the strongest file first."""

    name = "config"

    def __init__(self, files: Sequence[ConfiguredAgents], *, section: str = "agents.custom") -> None:
        self._files = files
        self._section = section

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
                    entries[AgentId(id)] = fields_entry(fields, location=location, id=id, trusted=file.trusted)
        return Snapshot(name=self.name, kind="config", entries=entries, problems=tuple(problems))


def _problem(location: str, code: str, message: str) -> Problem:
    return Problem(code=code, severity="warning", message=message, file=location)
