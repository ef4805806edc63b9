"""Handoff: an exposed ai_human agent takes over the same thread, with its history."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from retinue.ports.tool import Result
from retinue.runtime import delegation
from retinue.runtime import delegation_specs as specs
from retinue.runtime.completion import Finish
from retinue.runtime.start import start_run
from retinue.runtime.state import CallState
from retinue.runtime.stops import HandOver
from retinue.runtime.system_tools import SystemTool
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import RetinueError
from retinue.schema.events.threads import Pin, SegmentStarted
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.runtime.work import Work


class Handoff(SystemTool):
    def __init__(self, spec: ToolSpec, agent: str) -> None:
        super().__init__(spec)
        self._agent = agent

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        return Result(text=f"The conversation is handed over to {self._agent}.", metadata={"handoff": self._agent})


def tools(work: "Work", definition: AgentDefinition, taken: Collection[str]) -> dict[str, SystemTool]:
    """One tool for each exposed ai_human agent that the definition lists by name."""
    if definition.allowed_agents is None:
        return {}
    made: dict[str, SystemTool] = {}
    for pin in delegation.callable_pins(work, definition).values():
        if pin.definition.expose_as_tool and pin.definition.type == "ai_human":
            name = specs.tool_name(pin.definition.id, {*taken, *made}, prefix=specs.HANDOFF)
            made[name] = Handoff(_spec(name, pin), pin.definition.id)
    return made


def _spec(name: str, pin: Pin) -> ToolSpec:
    about = specs.described(pin.definition)
    return ToolSpec(
        name=name,
        description=f"Hand this conversation over to {pin.definition.name}, who goes on in your place. {about}",
        parameters={"type": "object", "properties": {"reason": {"type": "string", "description": "Why"}}},
        effect="read",
    )


async def hand_over(work: "Work", move: HandOver) -> Finish | None:
    """Pin the other definition and go on under it: same thread, same run, its own prompt, tools and limits."""
    try:
        pin = work.runtime.agents.pin(move.agent, work.state.thread.tenant)
    except RetinueError as error:
        return Finish(result="", status="FAILED", reason="error", error=error.message)
    work.record(SegmentStarted(at=work.now, pin=pin, call=move.call))
    return await start_run(work, goes_on=True)
