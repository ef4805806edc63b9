"""Which tools there are, and the toolbox that builds them for an agent.

A row tells name and effect without importing the tool; its module is loaded when
somebody asks for the tool itself. Tools that park (delegation, questions,
completion) belong to the runtime, those of MCP servers to `retinue.remotes`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from retinue.ports.clock import Clock
from retinue.ports.memory import Memory
from retinue.ports.tool import Tool
from retinue.schema.agent import AgentDefinition
from retinue.schema.tool import Effect
from retinue.tools.settings import ToolSettings

if TYPE_CHECKING:
    from retinue.tools.discovery import ToolFile
    from retinue.tools.websearch import SearchProvider


class Row(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    """`module:Class`, below `retinue.tools`."""
    effect: Effect
    needs: tuple[str, ...] = ()
    """Parts of the toolbox that the class is built with."""


TABLE: Mapping[str, Row] = {
    "read": Row(target="read:Read", effect="read"),
    "write": Row(target="write:Write", effect="idempotent"),
    "edit": Row(target="edit:Edit", effect="write"),
    "multi_edit": Row(target="multi_edit:MultiEdit", effect="write"),
    "glob": Row(target="glob:Glob", effect="read"),
    "grep": Row(target="grep:Grep", effect="read"),
    "list": Row(target="list:List", effect="read"),
    "bash": Row(target="bash:Bash", effect="write", needs=("settings",)),
    "todo": Row(target="todo:Todo", effect="idempotent"),
    "webfetch": Row(target="webfetch:WebFetch", effect="read", needs=("settings",)),
    "websearch": Row(target="websearch:WebSearch", effect="read", needs=("settings", "search")),
    "diagnostics": Row(target="diagnostics:Diagnostics", effect="read", needs=("settings",)),
    "save_memory": Row(target="memory:SaveMemory", effect="idempotent", needs=("memory", "clock")),
    "load_memory": Row(target="memory:LoadMemory", effect="read", needs=("memory", "clock")),
}


class BuiltinTools:
    """The toolbox of the shipped tools and of Python functions."""

    def __init__(
        self,
        *,
        memory: Memory,
        clock: Clock,
        settings: ToolSettings = ToolSettings(),  # noqa: B008 - a frozen value
        functions: Mapping[str, Tool] | None = None,
        project: "Callable[[Path], Iterable[ToolFile]]" = lambda _: (),
        search: "SearchProvider | None" = None,
    ) -> None:
        """
        Args:
            memory: Where `save_memory` and `load_memory` keep what agents remember.
            clock: The time, for expiry.
            settings: What the operator configured.
            functions: Tools given in Python code.
            project: The files with tools of the project that a workspace belongs to.
            search: What `websearch` asks, when it is not the endpoint in the settings.
        """
        self._parts: dict[str, object] = {"memory": memory, "clock": clock, "settings": settings, "search": search}
        self._functions = dict(functions or {})
        self._project = project
        self._packaged: Mapping[str, Tool] | None = None
        self._built: dict[str, Tool] = {}

    async def tools(self, agent: AgentDefinition, workspace: str) -> Mapping[str, Tool]:
        """Shipped tools can't be replaced; a function in code wins over a project's, that over a package's."""
        from retinue.tools.discovery import packaged_tools, project_tools

        if self._packaged is None:
            self._packaged = packaged_tools().tools
        of_project = project_tools(self._project(Path(workspace))).tools if workspace else {}
        found = {**self._packaged, **of_project, **self._functions}
        return _Tools(self._build, {name: tool for name, tool in found.items() if name not in TABLE})

    def _build(self, name: str) -> Tool:
        tool = self._built.get(name)
        if tool is None:
            tool = self._built[name] = build(TABLE[name], self._parts)
        return tool


def build(row: Row, parts: Mapping[str, object]) -> Tool:
    module, name = row.target.split(":")
    kind: Callable[..., Tool] = getattr(import_module(f"retinue.tools.{module}"), name)
    return kind(**{need: parts[need] for need in row.needs})


class _Tools(Mapping[str, Tool]):
    """Names at once, tools when they are asked for."""

    def __init__(self, build: Callable[[str], Tool], functions: Mapping[str, Tool]) -> None:
        self._build = build
        self._functions = functions

    def __getitem__(self, name: str) -> Tool:
        return self._build(name) if name in TABLE else self._functions[name]

    def __iter__(self) -> Iterator[str]:
        yield from TABLE
        yield from self._functions

    def __len__(self) -> int:
        return len(TABLE) + len(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in TABLE or name in self._functions
