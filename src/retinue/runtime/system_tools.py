"""The tools that belong to the loop itself: they park, complete or start children instead of acting.

The table at the end of `for_agent` is where the next one goes; each lives with
its subject.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from retinue.ports.tool import Result
from retinue.runtime.completion import rejection
from retinue.runtime.state import CallState
from retinue.runtime.stops import payload, side_of
from retinue.schema.agent import AgentDefinition, Binding
from retinue.schema.errors import UsageError
from retinue.schema.thread import SideName
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.ports.tool import Tool
    from retinue.runtime.work import Work


class SystemTool:
    """A tool that changes the thread and nothing outside it. No ABC: every call asks whether its tool is one."""

    starts_child = False

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        """The result, or None when the call now waits for a person or a child."""
        raise NotImplementedError


class Completion(SystemTool):
    """Accepts or refuses a completion; an accepted one ends the run when the step is settled."""

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        problem = rejection(work.state.pin.definition, arguments)
        return Result(status="error", text=problem) if problem else Result(text="Completed.")


class BindingTool(SystemTool):
    """Made from a session binding that names a tool nobody else defines."""

    def __init__(self, spec: ToolSpec, binding: Binding, *, status: bool) -> None:
        super().__init__(spec)
        self._binding = binding
        self._status = status

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        from retinue.runtime import attachments

        if self._status:
            return Result(text="Status published.")
        try:
            attachments.send(work, payload(self._binding, state.call.arguments)[1], work.thread)
        except UsageError as error:
            return Result(status="error", text=error.message)
        return Result(text="Noted; the session ends here.")


def bindings(work: "Work", side: SideName, found: Mapping[str, "Tool | SystemTool"]) -> dict[str, SystemTool]:
    """Tools for the bindings of a side that no existing tool serves."""
    config = side_of(work.state, side)
    made: dict[str, SystemTool] = {}
    for binding, status in ((config.session_stop, False), (config.session_fail, False), (config.session_status, True)):
        if binding and binding.name not in found:
            made[binding.name] = BindingTool(_binding_spec(binding), binding, status=status)
    if config.stop_tool and config.stop_tool not in found and config.stop_tool not in made:
        binding = Binding(name=config.stop_tool, message_property=config.stop_tool_response_property)
        made[config.stop_tool] = BindingTool(_binding_spec(binding), binding, status=False)
    return made


def _binding_spec(binding: Binding) -> ToolSpec:
    properties: dict[str, object] = {}
    if binding.message_property:
        properties[binding.message_property] = {"type": "string", "description": "The message"}
    if binding.attachments_property:
        properties[binding.attachments_property] = {
            "type": "array",
            "items": {"type": "string"},
            "description": "Paths of files to hand over",
        }
    return ToolSpec(
        name=binding.name,
        description=f"Session control: {binding.name.replace('_', ' ')}.",
        parameters={
            "type": "object",
            "properties": properties,
            "required": [binding.message_property] if binding.message_property else [],
        },
        effect="read",
    )


def for_agent(work: "Work", definition: AgentDefinition, taken: Collection[str]) -> "dict[str, SystemTool]":
    """Every system tool of an agent but completion and bindings, which depend on the run."""
    from retinue.runtime import delegation, handoff, notify, questions

    found = {**questions.tools(), **notify.tools(definition), **delegation.tools(work, definition, taken)}
    return {**found, **handoff.tools(work, definition, {*taken, *found})}
