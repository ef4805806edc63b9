"""Agents defined in Python."""

from collections.abc import Iterable

from retinue.ports.source import Entry, Snapshot
from retinue.schema.agent import AgentDefinition


class CodeSource:
    """What `define_agent` made and the application was given."""

    name = "code"

    def __init__(self, definitions: Iterable[AgentDefinition]) -> None:
        self._definitions = tuple(definitions)

    async def load(self, previous: Snapshot | None) -> Snapshot:
        entries = {d.id: Entry(id=d.id, definition=d, location=f"code:{d.id}", hash=d.hash) for d in self._definitions}
        return Snapshot(name=self.name, kind="code", entries=entries)
