"""Words from a child to its parent: status updates and notices, in one commit with the child's own log."""

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from retinue.ports.store import InboxEntry
from retinue.ports.tool import Result
from retinue.runtime.state import CallState
from retinue.runtime.stops import payload, side_of
from retinue.runtime.system_tools import SystemTool
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import CallId
from retinue.schema.inbox import ChildReport
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.runtime.work import Work

NAMES = ("notify_parent", "set_status")


def tell_parent(work: "Work", report: ChildReport, id: str) -> None:
    """In one commit with the child's own log; a root has nobody to tell. What has the same id is told once."""
    if path := work.state.thread.path:
        work.send(path[-1].thread, InboxEntry(id=id, kind="child", data=msgspec.json.encode(report), at=work.now))


class Line:
    """A call's line to the parent. What it says is numbered, so that a call which runs again says nothing twice."""

    def __init__(self, work: "Work", call: CallId) -> None:
        self._work = work
        self._call = call
        self._count = count()

    async def set_status(self, status: str) -> None:
        """Publish a status text in the parent's registry."""
        await self._say(ChildReport(child=self._work.thread, kind="status", text=status))

    async def notify_parent(self, content: str) -> None:
        """Queue a message to the parent, whatever the communication mode."""
        await self._say(ChildReport(child=self._work.thread, kind="notice", text=content))

    async def _say(self, report: ChildReport) -> None:
        tell_parent(self._work, report, f"{self._call}:{report.kind}:{next(self._count)}")
        await self._work.flush()


class HookContext:
    """A thread's state as hooks see it, with S4's two ways to its parent; told with the next commit."""

    def __init__(self, work: "Work") -> None:
        self._work = work

    def __getattr__(self, name: str) -> object:
        return getattr(self._work.state, name)

    def notify_parent(self, content: str) -> None:
        self._say(ChildReport(child=self._work.thread, kind="notice", text=content))

    def set_status(self, status: str) -> None:
        self._say(ChildReport(child=self._work.thread, kind="status", text=status))

    def _say(self, report: ChildReport) -> None:
        tell_parent(self._work, report, self._work.runtime.clock.new_id())


def by_binding(work: "Work", state: CallState) -> None:
    """A successful call of the tool that the side binds as its status publishes what the binding takes out of it."""
    side = work.state.answer.side if work.state.answer else "a"
    binding = side_of(work.state, side).session_status
    if binding and binding.name == state.call.tool:
        text = payload(binding, state.call.arguments)[0]
        tell_parent(work, ChildReport(child=work.thread, kind="status", text=text), f"{state.call.id}:status:0")


class Tell(SystemTool):
    """`notify_parent` or `set_status` for a model."""

    def __init__(self, name: str) -> None:
        about = "Send a message to the agent that started you." if name == NAMES[0] else "Tell what you are doing."
        text = {"type": "string", "minLength": 1, "description": "The message" if name == NAMES[0] else "The status"}
        parameters = {"type": "object", "properties": {"content": text}, "required": ["content"]}
        super().__init__(ToolSpec(name=name, description=about, parameters=parameters, effect="read"))

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        content = str(arguments["content"])
        kind = "notice" if self.spec.name == NAMES[0] else "status"
        tell_parent(work, ChildReport(child=work.thread, kind=kind, text=content), f"{state.call.id}:{kind}:0")
        return Result(text="Told." if work.state.thread.path else "Nobody started this thread, so nobody was told.")


def tools(definition: AgentDefinition) -> dict[str, SystemTool]:
    """Only for a definition that lists them by name."""
    listed = {name for names in definition.tools.only for name in names}
    return {name: Tell(name) for name in NAMES if name in listed}
