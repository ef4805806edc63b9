"""What the runtime needs of a tool."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from retinue.schema.agent import AgentDefinition, SandboxMode, ToolOverride
from retinue.schema.ids import CallId, ThreadId
from retinue.schema.message import Media, OutcomeStatus
from retinue.schema.permission import Rule
from retinue.schema.tool import ToolSpec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool returns. An expected failure is a result with another status, not an exception."""

    text: str = ""
    status: OutcomeStatus = "ok"
    media: tuple[Media, ...] = ()
    metadata: Mapping[str, object] = {}
    taints: tuple[str, ...] = ()
    """Labels this data carries: private, untrusted."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running call may know and do."""

    thread: ThreadId
    call: CallId
    agent: AgentDefinition
    workspace: str
    files: str
    """The folder of the thread's own files."""
    tenant: str = "default"
    override: ToolOverride = ToolOverride()
    sandbox: SandboxMode = "auto"
    rules: tuple[tuple[str, tuple[Rule, ...]], ...] = ()
    """Tiers that file tools consult for each path they touch."""
    env: Mapping[str, str] = {}
    progress: Callable[[str], None] = lambda _: None
    """Shows a line of output to whoever watches; never logged."""
    notify_parent: Callable[[str], Awaitable[None]] | None = None
    set_status: Callable[[str], Awaitable[None]] | None = None


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    def resource(self, arguments: Mapping[str, object]) -> str:
        """What permission rules match on: the command, the path, the URL."""
        ...

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result: ...


class Toolbox(Protocol):
    """Every tool an agent might have; filters and rules are applied by the runtime."""

    async def tools(self, agent: AgentDefinition, workspace: str) -> Mapping[str, Tool]: ...
