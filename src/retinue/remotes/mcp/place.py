"""What connections need of the installation: folders, the guarded client, the environment."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from retinue.net.client import GuardedClient
from retinue.remotes.mcp.config import ServerConfig
from retinue.sandbox.bubblewrap import available
from retinue.schema.errors import Denied

_TOLD = 600
"""Characters of a server's log that go into an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    folder: Path
    """Logs, temporary files, tokens, and what was seen of tools; servers in a sandbox can't see it."""
    network: Callable[[], Awaitable[GuardedClient]]
    environ: Mapping[str, str]
    hidden: tuple[str, ...] = ()
    show: Callable[[str], None] | None = None
    """Shows a person where to sign in."""

    def log(self, config: ServerConfig) -> Path:
        """What the server writes on its standard error."""
        folder = self.folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{config.key[:16]}.log"

    def said(self, config: ServerConfig) -> str:
        """The end of the log."""
        path = self.log(config)
        text = path.read_text(encoding="utf-8", errors="replace") if config.argv and path.exists() else ""
        return text.strip()[-_TOLD:]


def isolation(config: ServerConfig) -> str:
    """`bubblewrap` or `none`.

    Raises:
        Denied: a sandbox is required, and there is none.
    """
    if not config.argv or config.sandbox == "off":
        return "none"
    found = available()
    if not found.program and config.sandbox == "require":
        raise Denied(f"the sandbox is required here, and {found.reason}")
    return "bubblewrap" if found.program else "none"
