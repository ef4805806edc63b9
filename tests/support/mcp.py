"""MCP servers in settings of a test's own folder, and contexts to call their tools with."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from retinue.app.mcp import Mcp
from retinue.app.settings import NetworkSection, SandboxSettings, Settings, SettingsFile, Tier
from retinue.ports.tool import Inquiry, Result, ToolContext
from retinue.schema.agent import AgentDefinition, McpServer, SandboxMode
from retinue.schema.ids import AgentId, CallId, ThreadId

SERVERS = Path(__file__).parents[1] / "remotes" / "servers"


def stub(*words: str, env: Mapping[str, str] | None = None, timeout: float | None = None) -> McpServer:
    """The server that misbehaves on request."""
    return McpServer(command=sys.executable, args=(str(SERVERS / "stub.py"), *words), env=env or {}, timeout=timeout)


def settings(
    folder: Path,
    servers: Mapping[str, McpServer],
    *,
    sandbox: SandboxMode = "off",
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
) -> Settings:
    (folder / "workspace").mkdir(parents=True, exist_ok=True)
    file = SettingsFile(
        mcp_servers=servers,
        sandbox=SandboxSettings(mode=sandbox),
        network=NetworkSection(allow=allow, deny=deny),
    )
    return Settings(home=folder / "home", root=folder / "workspace", user=Tier(name="user", settings=file))


class McpFactory(Protocol):
    def __call__(
        self,
        servers: Mapping[str, McpServer],
        *,
        sandbox: SandboxMode = ...,
        allow: tuple[str, ...] = ...,
        deny: tuple[str, ...] = ...,
        environ: Mapping[str, str] | None = ...,
        wait: float = ...,
        show: Callable[[str], None] | None = ...,
    ) -> Mcp: ...


class Caller:
    """An agent with servers of its settings: lists tools and calls them."""

    def __init__(self, mcp: Mcp, folder: Path, *servers: str, thread: str = "t") -> None:
        self.mcp = mcp
        self.agent = AgentDefinition(id=AgentId("a"), name="a", mcp_servers=servers)
        self.workspace = str(folder / "workspace")
        self.files = str(folder / "files")
        self.thread = ThreadId(thread)
        self.said: list[str] = []

    async def names(self) -> list[str]:
        return list(await self.mcp.tools(self.agent, self.workspace, {}))

    async def call(
        self,
        tool: str,
        *,
        ask: Callable[[Inquiry], Awaitable[object]] | None = None,
        sandbox: SandboxMode = "auto",
        **arguments: object,
    ) -> Result:
        tools = await self.mcp.tools(self.agent, self.workspace, {})
        context = ToolContext(
            thread=self.thread,
            call=CallId("call"),
            agent=self.agent,
            workspace=self.workspace,
            files=self.files,
            progress=self.said.append,
            sandbox=sandbox,
            ask=ask,
        )
        return await tools[tool].run(arguments, context)
