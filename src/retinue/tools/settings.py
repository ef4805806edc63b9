"""What an operator configures for the shipped tools; `retinue.app` fills it in."""

from collections.abc import Mapping

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use."""

    seconds: float = 120.0
    """When the call names no time of its own."""
    most_seconds: float = 1800.0
    memory: int = 8 * 1024**3
    """Bytes of address space a process may have; 0 for no limit."""
    processes: int = 2048
    """Processes the user of the command may have; 0 for no limit."""
    file_size: int = 4 * 1024**3


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    limits: Limits = Limits()
    sandbox_network: bool = False
    """Whether commands in the sandbox reach the network."""
    search_url: str | None = None
    """A SearXNG-compatible endpoint, `https://host/search`."""
    checkers: Mapping[str, tuple[str, ...]] = {}
    """Diagnostics by file pattern: `*.py` to a command, in which `{file}` is the file."""
