"""A server as it is started or reached: settings with every variable filled in. `retinue.app.mcp` makes it."""

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from retinue.schema.agent import SandboxMode

CALL_SECONDS = 120.0
START_SECONDS = 60.0
SIGN_IN_SECONDS = 300.0


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server. Threads whose configurations have the same `key` share its process or session."""

    name: str
    identity: str
    """Digest of its name and its program or URL: tokens, and what its tools were first, are remembered by it."""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    auth: Mapping[str, object] | None = None
    workspace: str = ""
    sandbox: SandboxMode = "auto"
    network: bool = False
    """Whether a sandboxed server reaches the network."""
    readable: tuple[str, ...] = ()
    secrets: Mapping[str, str] = {}
    """Name and value of every variable that was filled in; never shown."""
    timeout: float = CALL_SECONDS
    """Seconds of one call."""
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    problem: str = ""
    """Why it can't be started at all."""

    @property
    def key(self) -> str:
        """What makes it another process: not which of its tools an agent wants, nor how long it waits for them."""
        shared = msgspec.structs.replace(self, timeout=0.0, include=None, exclude=())
        return sha256(msgspec.json.encode(shared, order="sorted")).hexdigest()
