"""Which tools a side is offered, and the head of its requests.

Filters take tools away here; rules judge each call later. A tool that a rule
denies outright is not offered either.
"""

from collections.abc import Iterable, Mapping

import msgspec

from retinue.definition.template import render
from retinue.policy.filters import offered
from retinue.policy.patterns import matches
from retinue.ports.model import Head
from retinue.ports.tool import Tool
from retinue.runtime import permit, system_tools
from retinue.runtime.completion import COMPLETE, completion_spec
from retinue.runtime.delegation_specs import delegates
from retinue.runtime.ledger import CAPPED_OUTPUT, within
from retinue.runtime.sides import side_definition
from retinue.runtime.system_tools import SystemTool
from retinue.runtime.work import Work
from retinue.schema.agent import AgentDefinition
from retinue.schema.thread import SideName
from retinue.schema.tool import ToolSpec

PLANNING_EXTRA = frozenset({"todo", "question", "request_user_input"})
PREFIX = (
    "You are an AI assistant powered by a large language model.\n"
    "Current time: {{current_time}}\n"
    "Working directory: {{working_directory}}\n\n"
)


async def tools_for(work: Work, side: SideName) -> Mapping[str, Tool | SystemTool]:
    """Every tool the side may call in this run, completion and delegation included."""
    if side in work.offers:
        return work.offers[side]
    definition = side_definition(work, side)
    found: dict[str, Tool | SystemTool] = {}
    if definition.execution_mode != "single_shot":
        available = await work.runtime.toolbox.tools(_granted(work, definition), work.state.thread.workspace)
        system = system_tools.for_agent(work, definition, available)
        admitted = offered(definition.tools, [*available, *system], allowed_commands=definition.allowed_commands)
        names = [n for n in (*available, *system) if n in admitted or (n in system and _delegates(n, definition))]
        found = {n: system.get(n) or available[n] for n in names if not permit.denied_outright(work, n)}
        if definition.execution_mode == "planning" or work.state.thread.read_only:
            found = {n: t for n, t in found.items() if t.spec.effect == "read" or _plans(n)}
    found |= system_tools.bindings(work, side, found)
    if work.state.run and work.state.run.started.completion == "explicit":
        found[COMPLETE] = system_tools.Completion(completion_spec(definition))
    work.offers[side] = found
    return found


def _granted(work: Work, definition: AgentDefinition) -> AgentDefinition:
    """The servers that a definition brings along are started for trusted sources only; for others they are names."""
    if work.state.pin.trusted or not definition.inline_mcp_servers:
        return definition
    names = (*(definition.mcp_servers or ()), *definition.inline_mcp_servers)
    return msgspec.structs.replace(definition, mcp_servers=names, inline_mcp_servers={})


def _delegates(name: str, definition: AgentDefinition) -> bool:
    """Delegation follows who may call whom; a list of tools takes it away only by naming it."""
    return delegates(name) and not any(matches(pattern, name) for pattern in definition.tools.denied)


def _plans(name: str) -> bool:
    return name in PLANNING_EXTRA or delegates(name)


async def head_for(work: Work, side: SideName) -> Head:
    """What stays the same from step to step of a run."""
    key = (side, work.state.run is not None and work.state.run.grace is not None)
    if key not in work.heads:
        work.heads[key] = await _head(work, side)
    return work.heads[key]


async def _head(work: Work, side: SideName) -> Head:
    definition, run = side_definition(work, side), work.state.run
    tools = await tools_for(work, side)
    specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools.values())
    if run and run.grace is not None:
        specs = tuple(s for s in specs if s.name == COMPLETE)
    earlier = work.state.handed_over if specs else tuple(work.state.called)
    stubs = _stubs(name for name in earlier if name not in {spec.name for spec in specs})
    return Head(
        system=run.started.system.get(side, "") if run else "",
        tools=(*specs, *stubs),
        tool_choice="none" if stubs and not specs else "auto",
        temperature=definition.temperature,
        top_p=definition.top_p,
        max_tokens=most_output(work),
        reasoning_effort=definition.reasoning_effort,
        thinking_budget=definition.thinking_budget,
        parallel_tool_calls=definition.parallel_tool_calls,
        options=msgspec.json.encode(within(definition.options) if work.state.thread.capped else definition.options),
    )


def _stubs(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    """Tools that the history holds calls of: providers refuse a history whose tools they were never told of."""
    gone = "Not available any more."
    return tuple(ToolSpec(name=n, description=gone, parameters={"type": "object", "properties": {}}) for n in names)


def most_output(work: Work) -> int | None:
    """What an answer may take; under a budget a request never asks for more than was set aside for it."""
    return work.state.pin.definition.max_tokens or (CAPPED_OUTPUT if work.state.thread.capped else None)


def system_prompt(work: Work, definition: AgentDefinition, values: Mapping[str, str], inputs: Mapping[str, str]) -> str:
    template = (PREFIX if definition.use_default_prefix else "") + definition.prompt
    return render(template, values, inputs)
