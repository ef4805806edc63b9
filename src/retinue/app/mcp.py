"""MCP servers in the app: which servers an agent has, and a toolbox that adds their tools to the others.

A definition names servers that the operator configured, or brings its own (the runtime
hands those over for trusted sources only). One that does neither has the configured
servers whose tools its filter admits.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from retinue.app.settings import Settings
from retinue.net.client import GuardedClient
from retinue.policy.patterns import matches
from retinue.ports.tool import Tool, Toolbox
from retinue.registry.near import near_names
from retinue.remotes.mcp.config import CALL_SECONDS, SIGN_IN_SECONDS, ServerConfig
from retinue.remotes.mcp.naming import prefix
from retinue.remotes.mcp.place import Place
from retinue.remotes.mcp.pool import Pool
from retinue.remotes.mcp.tool import McpTool, tools_of
from retinue.schema.agent import AgentDefinition, McpServer, SandboxMode, ToolFilter
from retinue.schema.errors import NotFound, SettingsError, SourceUnavailable
from retinue.schema.tool import Effect

START_WAIT = 10.0
"""Seconds that a run waits for servers before it goes on without the slow ones."""
_VARIABLE = re.compile(r"env\(([A-Za-z_][A-Za-z0-9_]*)\)")


class Mcp:
    """The servers of one app. They run from their first use until `close`."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        wait: float = START_WAIT,
        show: Callable[[str], None] | None = None,
    ) -> None:
        """
        Args:
            settings: Whose servers, sandbox and network they are.
            environ: What `env(NAME)` means.
            wait: Seconds that a run waits for servers before it goes on without the slow ones.
            show: Shows a person where to sign in; without it nobody can.
        """
        self._settings, self._environ, self._wait = settings, environ, wait
        self._guarded: GuardedClient | None = None
        data = [] if "://" in settings.database else [str(Path(settings.database).parent)]
        place = Place(
            folder=settings.home / "mcp",
            network=self._network,
            environ=environ,
            hidden=(str(settings.home), *data),
            show=show,
        )
        self.pool = Pool(place)

    def toolbox(self, inner: Toolbox) -> Toolbox:
        return _Toolbox(self, inner)

    def servers_of(self, agent: AgentDefinition) -> dict[str, McpServer]:
        """By name; the definition's own hide the operator's.

        Raises:
            SettingsError: nobody configured a server that the definition names.
        """
        configured = self._settings.mcp_servers
        named = agent.mcp_servers or ()
        unknown = [name for name in named if name not in configured]
        if unknown:
            near = near_names(unknown[0], configured, limit=1)
            known = f"configured are {', '.join(sorted(configured))}" if configured else "none is configured"
            raise SettingsError(
                f"{agent.id} names the MCP server {unknown[0]!r}, and {known}",
                hint=f"did you mean {near[0]!r}?" if near else "add it to mcp_servers of the settings",
            )
        if agent.mcp_servers is not None or agent.inline_mcp_servers:
            return {**{name: configured[name] for name in named}, **agent.inline_mcp_servers}
        return {name: server for name, server in configured.items() if _admits(agent.tools, prefix(name))}

    def config(self, name: str, server: McpServer, workspace: str, sandbox: SandboxMode = "auto") -> ServerConfig:
        """`server` with its variables filled in; what is wrong with it becomes its `problem`."""
        ours, secrets, missing = self._settings.sandbox, dict[str, str](), list[str]()

        def fill(text: str) -> str:
            for variable in _VARIABLE.findall(text):
                value = self._environ.get(variable)
                if value is None:
                    missing.append(variable)
                else:
                    secrets[variable] = value
            return _VARIABLE.sub(lambda found: secrets.get(found[1], ""), text)

        where = workspace or str(self._settings.root)
        filled = {name: fill(value) for name, value in server.env.items()}
        headers = {name: fill(value) for name, value in server.headers.items()}
        auth = server.auth and {key: fill(v) if isinstance(v, str) else v for key, v in server.auth.items()}
        problem = _wrong(server) or (f"the variable {missing[0]} is not set" if missing else "")
        return ServerConfig(
            name=name,
            identity=sha256(msgspec.json.encode((name, server.command, server.args, server.url))).hexdigest(),
            argv=(server.command, *server.args) if server.command else (),
            env=filled,
            folder=str(Path(where, Path(server.cwd or "").expanduser())),
            url=server.url or "",
            headers=headers,
            auth=auth,
            workspace=where if server.command else "",
            sandbox=_stricter(ours.mode, sandbox),
            network=server.network or ours.network,
            readable=ours.readable,
            secrets=secrets,
            timeout=server.timeout or CALL_SECONDS,
            include=server.include_tools,
            exclude=server.exclude_tools,
            problem=problem or self._refused(server.url),
        )

    async def tools(self, agent: AgentDefinition, workspace: str, taken: Mapping[str, Tool]) -> dict[str, Tool]:
        """The servers' tools; what does not start in time is offered as a way to wait for it."""
        configs = [self.config(n, s, workspace, agent.sandbox) for n, s in self.servers_of(agent).items()]
        servers = [(config, self.pool.get(config)) for config in configs]
        await asyncio.gather(*(connection.ready(self._wait) for _, connection in servers))
        return tools_of(servers, tuple(taken))

    async def close(self) -> None:
        await self.pool.close()
        if self._guarded is not None:
            await self._guarded.__aexit__()

    async def _network(self) -> GuardedClient:
        if self._guarded is None:
            self._guarded = await GuardedClient(self._settings.network).__aenter__()
        return self._guarded

    def _refused(self, url: str | None) -> str:
        from urllib.parse import urlsplit

        host = urlsplit(url or "").hostname or ""
        return f"{host} is denied by network.deny" if self._settings.network.denies(host) else ""


class ProbedTool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    effect: Effect
    changed: bool
    """It is not what it was when it was first seen."""
    about: str


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    sandbox: str
    seconds: float
    tools: tuple[ProbedTool, ...]


async def probe(
    settings: Settings, environ: Mapping[str, str], name: str, *, workspace: str, show: Callable[[str], None]
) -> Probed:
    """Start one configured server, with a person there to sign in, and see what it offers.

    Raises:
        NotFound: no such server is configured.
        SourceUnavailable: it is not there; the text says why.
    """
    if name not in settings.mcp_servers:
        known = ", ".join(sorted(settings.mcp_servers)) or "none"
        raise NotFound(f"there is no MCP server {name!r}", hint=f"configured: {known}")
    mcp, began = Mcp(settings, environ, show=show), time.monotonic()
    try:
        config = mcp.config(name, settings.mcp_servers[name], workspace)
        connection = mcp.pool.get(config)
        if not await connection.ready(SIGN_IN_SECONDS):
            raise SourceUnavailable(f"the MCP server {name} is not there: {connection.problem}")
        offered = tools_of([(config, connection)]).values()
        tools = tuple(
            ProbedTool(
                name=t.spec.name,
                effect=t.spec.effect,
                changed=bool(t.changed),
                about=t.spec.description.partition("\n")[0],
            )
            for t in offered
            if isinstance(t, McpTool)
        )
        seconds = round(time.monotonic() - began, 2)
        return Probed(server=connection.server, sandbox=connection.isolation, seconds=seconds, tools=tools)
    finally:
        await mcp.close()


class _Toolbox:
    def __init__(self, mcp: Mcp, inner: Toolbox) -> None:
        self._mcp, self._inner = mcp, inner

    async def tools(self, agent: AgentDefinition, workspace: str) -> Mapping[str, Tool]:
        found = await self._inner.tools(agent, workspace)
        if not self._mcp.servers_of(agent):
            return found
        return {**found, **await self._mcp.tools(agent, workspace, found)}


def _admits(filter: ToolFilter, start: str) -> bool:
    """Whether a tool whose name begins with `start` may pass the filter."""
    if any(matches(pattern, f"{start}*") for pattern in filter.denied):
        return False
    return all(any(_overlaps(pattern, start) for pattern in only) for only in filter.only)


def _overlaps(pattern: str, start: str) -> bool:
    literal = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return pattern.startswith(start) or (literal != pattern and start.startswith(literal))


def _stricter(operator: SandboxMode, agent: SandboxMode) -> SandboxMode:
    """An agent may ask for more than the operator, not for less; `auto` asks for nothing."""
    return agent if agent == "require" else operator


def _wrong(server: McpServer) -> str:
    if server.tcp or server.type in ("sse", "ws", "tcp"):
        return "only stdio and streamable HTTP are supported; give a command, or the url of a streamable HTTP endpoint"
    if (server.command is None) == (server.url is None):
        return "it needs either a command or a url"
    return ""
