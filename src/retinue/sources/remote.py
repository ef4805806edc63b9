"""External A2A agents of the settings, listed like others. Calling them is for `retinue.remotes`.

Card and auth are checked where every definition is, in `retinue.definition`; a file of
any folder may define a remote agent too, and the catalog asks all of them last.
"""

from collections.abc import Sequence

import msgspec

from retinue.ports.source import Snapshot
from retinue.sources.configuration import ConfigurationSource, ConfiguredAgents


class RemoteSource:
    name = "a2a"

    def __init__(self, files: Sequence[ConfiguredAgents]) -> None:
        remote = [msgspec.structs.replace(f, agents=[{"kind": "remote", **a} for a in f.agents]) for f in files]
        self._source = ConfigurationSource(remote, section="remote_agents")

    async def load(self, previous: Snapshot | None) -> Snapshot:
        read = await self._source.load(None)
        return msgspec.structs.replace(read, name=self.name, kind="a2a", priority="external")
