"""What an operator configures for the shipped tools; `retinue.app` fills it in."""

from collections.abc import Mapping

import msgspec

from retinue.net.settings import NetworkSettings
from retinue.sandbox.limits import Limits


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    limits: Limits = Limits()
    sandbox_network: bool = False
    """Whether commands in the sandbox reach the network."""
    hidden: tuple[str, ...] = ()
    """Folders and files that commands in the sandbox can't see: the installation's own data."""
    protected: tuple[str, ...] = ()
    """Paths that no agent changes: sources of agents, settings."""
    network: NetworkSettings = NetworkSettings()
    search_url: str | None = None
    """A SearXNG-compatible endpoint, `https://host/search`."""
    checkers: Mapping[str, tuple[str, ...]] = {}
    """Diagnostics by file pattern: `*.py` to a command, in which `{file}` is the file."""
