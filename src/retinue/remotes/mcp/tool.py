"""Tools of MCP servers, as the runtime uses any tool; and a stand-in for those of a server that is not there."""

import difflib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from retinue.policy.patterns import matches
from retinue.policy.redact import Redactor
from retinue.ports.tool import Inspection, Result, Tool, ToolContext
from retinue.remotes.mcp.config import START_SECONDS, ServerConfig
from retinue.remotes.mcp.convert import failure_of, result_of
from retinue.remotes.mcp.listed import Listed
from retinue.remotes.mcp.naming import prefix, tool_names
from retinue.remotes.mcp.pool import Connection, Unavailable
from retinue.schema.tool import ToolSpec

TOOLS_CHANGED = {"tools": "changed"}
"""Metadata of a result after which the runtime gathers the agent's tools anew."""


def tools_of(servers: Sequence[tuple[ServerConfig, Connection]], taken: Sequence[str] = ()) -> dict[str, Tool]:
    """Every tool that the servers offer now, under names of its own; for a server that is not there, a stand-in."""
    offered = {
        (config.name, tool.name): (config, connection, tool)
        for config, connection in servers
        for tool in connection.tools
        if not connection.problem and admitted(config, tool.name)
    }
    found: dict[str, Tool] = {}
    for pair, name in tool_names(offered, taken).items():
        config, connection, tool = offered[pair]
        found[name] = McpTool(name, tool, config, connection)
    for config, connection in servers:
        if connection.problem:
            found[f"{prefix(config.name)[:50]}connect"] = Connect(config, connection)
    return dict(sorted(found.items()))


def admitted(config: ServerConfig, tool: str) -> bool:
    listed = config.include is None or any(matches(pattern, tool) for pattern in config.include)
    return listed and not any(matches(pattern, tool) for pattern in config.exclude)


class McpTool:
    def __init__(self, name: str, listed: Listed, config: ServerConfig, connection: Connection) -> None:
        self._listed, self._config, self._connection = listed, config, connection
        self._generation = connection.generation
        self._before = connection.changed.get(listed.name)
        shown = listed if self._before is None else listed.bare
        self.spec = ToolSpec(
            name=name, description=shown.description, parameters=shown.parameters, effect=listed.effect
        )

    @property
    def changed(self) -> str:
        if self._connection.changed.get(self._listed.name) is None:
            return ""
        return f"{self.spec.name} is not what it was when it was first seen: the server {self._config.name} changed it"

    @property
    def confined(self) -> bool:
        return self._connection.isolation == "bubblewrap" and not self._config.network

    def resource(self, arguments: Mapping[str, object]) -> str:
        return msgspec.json.encode(arguments, order="sorted").decode()

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        del arguments, context
        if self._before is None:
            return Inspection()
        now = self._listed.description
        lines = difflib.unified_diff(self._before.splitlines(), now.splitlines(), "before", "now", lineterm="")
        return Inspection(preview="\n".join(lines) or f"Its parameters changed:\n{_pretty(self._listed.parameters)}")

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        name, connection = self.spec.name, self._connection
        if context.sandbox == "require" and self._config.argv and connection.isolation == "none":
            return Result(status="denied", text=f"The sandbox is required, and the server of {name} is not in one.")
        if self.changed:
            connection.accept(self._listed)
        redact = Redactor(self._config.secrets)
        result = await self._called(arguments, context, redact)
        more = {"sandbox": connection.isolation} if self._config.argv else {}
        if connection.generation != self._generation:
            more |= TOOLS_CHANGED
        return msgspec.structs.replace(result, metadata={**result.metadata, **more})

    async def _called(
        self, arguments: Mapping[str, object], context: ToolContext, redact: Callable[[str], str]
    ) -> Result:
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED

        name, server = self._listed.name, self._config.name
        try:
            answer = await self._connection.call(name, arguments, context, self._config.timeout)
        except TimeoutError:
            return Result(status="timed_out", text=f"The MCP server {server} did not answer in time.")
        except Unavailable as error:
            return Result(status="error", text=f"The MCP server {server} is not there: {redact(str(error))}")
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                return self._gone()
            return failure_of(self.spec.name, redact(f"{server} refused the call: {error.message}"), context)
        except RuntimeError as error:
            text = redact(f"{server} answered what does not fit its own schema: {error}")
            return failure_of(self.spec.name, text, context)
        return result_of(self.spec.name, answer, context, redact)

    def _gone(self) -> Result:
        text = f"The MCP server {self._config.name} ended while this ran; it is started again when it is needed."
        if self.spec.effect != "write":
            return Result(status="error", text=text)
        return Result(status="interrupted", text=f"{text} The call may or may not have had its effect: check first.")


class Connect:
    """Stands for a server that is starting or failed, so that the model knows what is missing and can wait for it."""

    def __init__(self, config: ServerConfig, connection: Connection) -> None:
        self._config, self._connection = config, connection
        self.spec = ToolSpec(
            name=f"{prefix(config.name)[:50]}connect",
            description=f"The tools of the MCP server {config.name} are not here: "
            f"{Redactor(config.secrets)(connection.problem)}. Call this to try again and wait for it.",
            parameters={"type": "object", "properties": {}},
            effect="read",
        )

    def resource(self, arguments: Mapping[str, object]) -> str:
        del arguments
        return self._config.name

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        del arguments, context
        if not await self._connection.ready(START_SECONDS):
            why = Redactor(self._config.secrets)(self._connection.problem)
            return Result(status="error", text=f"The MCP server {self._config.name} is not there: {why}")
        names = ", ".join(tool.name for tool in self._connection.tools if admitted(self._config, tool.name))
        return Result(text=f"{self._config.name} is there now, with: {names}.", metadata=TOOLS_CHANGED, labelled=True)


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
