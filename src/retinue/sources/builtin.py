"""The agents that come with Retinue: the Markdown files of `retinue.agents`."""

from pathlib import Path

import retinue.agents
from retinue.ports.source import Snapshot
from retinue.sources.directory import DirectorySource


class BuiltinSource:
    """Always trusted, never changed: they belong to the program."""

    name = "builtin"

    def __init__(self) -> None:
        self._folder = DirectorySource(self.name, Path(retinue.agents.__path__[0]), kind="builtin")

    async def load(self, previous: Snapshot | None) -> Snapshot:
        return previous if previous is not None else await self._folder.load(None)


def builtin_slugs() -> frozenset[str]:
    """The names that only an override may take."""
    return frozenset(path.stem for path in Path(retinue.agents.__path__[0]).glob("*.md"))
