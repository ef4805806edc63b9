"""Agents defined in Python."""

from collections.abc import Iterable

from retinue.definition.code import CodeAgent
from retinue.ports.source import Entry, Snapshot
from retinue.schema.agent import AgentDefinition


class CodeSource:
    """What `define_agent` made and the application was given."""

    name = "code"

    def __init__(self, agents: Iterable[CodeAgent | AgentDefinition]) -> None:
        self._definitions = [a.definition if isinstance(a, CodeAgent) else a for a in agents]

    async def load(self, previous: Snapshot | None) -> Snapshot:
        entries = {
            d.id: Entry(id=d.id, definition=d, location=f"python:{d.id}", hash=d.hash) for d in self._definitions
        }
        return Snapshot(name=self.name, kind="code", entries=entries)
