"""Which tools a side is offered, and the head of its requests.

Filters take tools away here; rules judge each call later. A tool that a rule
denies outright is not offered either.
"""

from collections.abc import Mapping

import msgspec

from retinue.definition.template import render
from retinue.policy.filters import offered
from retinue.ports.model import Candidate, Head
from retinue.ports.tool import Tool
from retinue.runtime import delegation, permit, system_tools
from retinue.runtime.completion import COMPLETE, completion_spec
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


def side_definition(work: Work, side: SideName) -> AgentDefinition:
    """The agent as one side runs it: a prompt may bring a model, tools and hooks of its own."""
    definition = work.state.pin.definition
    config = definition.side_a if side == "a" else definition.side_b
    prompt = definition.prompts.get(config.prompt) if config and config.prompt else None
    if prompt is None:
        return definition
    return msgspec.structs.replace(
        definition,
        prompt=prompt.text,
        model=prompt.model or definition.model,
        provider=prompt.provider or definition.provider,
        tools=prompt.tools if prompt.tools is not None else definition.tools,
        hooks=prompt.hooks or definition.hooks,
        subagents=prompt.subagents or definition.subagents,
        variables={**definition.variables, **prompt.variables},
    )


def candidates(work: Work, side: SideName) -> tuple[Candidate, ...]:
    """Whom to ask, best first; resolved once a run so that it stays the same."""
    if side not in work.candidates:
        state = work.state
        found = work.runtime.models.resolve(
            side_definition(work, side),
            asked=(state.segment.model if state.segment else None) or state.thread.model,
            inherited=state.thread.inherited_model,
            trusted=state.pin.trusted,
        )
        work.candidates[side] = tuple(found)
    return work.candidates[side]


async def tools_for(work: Work, side: SideName) -> Mapping[str, Tool | SystemTool]:
    """Every tool the side may call in this run, completion and delegation included."""
    if side in work.offers:
        return work.offers[side]
    definition = side_definition(work, side)
    found: dict[str, Tool | SystemTool] = {}
    if definition.execution_mode != "single_shot":
        found = dict(await work.runtime.toolbox.tools(definition, work.state.thread.workspace))
        found |= system_tools.for_agent(work, definition)
        names = offered(definition.tools, found)
        found = {name: tool for name, tool in found.items() if name in names or _always(name, definition)}
        if definition.execution_mode == "planning" or work.state.thread.read_only:
            found = {n: t for n, t in found.items() if t.spec.effect == "read" or _plans(n)}
        if definition.allowed_commands == ():
            found.pop("bash", None)
        found = {n: t for n, t in found.items() if not permit.denied_outright(work, n)}
    found |= system_tools.bindings(work, side, found)
    if work.state.run and work.state.run.started.completion == "explicit":
        found[COMPLETE] = system_tools.Completion(completion_spec(definition))
    work.offers[side] = found
    return found


def _always(name: str, definition: AgentDefinition) -> bool:
    """System tools are there for all agents unless a list denies them by name."""
    return name in system_tools.ALWAYS and name not in definition.tools.denied


def _plans(name: str) -> bool:
    return name in PLANNING_EXTRA or name in delegation.NAMES or name.startswith(delegation.PREFIX)


async def head_for(work: Work, side: SideName) -> Head:
    """What stays the same from step to step of a run."""
    definition, run = side_definition(work, side), work.state.run
    tools = await tools_for(work, side)
    specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools.values())
    if run and run.grace is not None:
        specs = tuple(s for s in specs if s.name == COMPLETE)
    return Head(
        system=run.started.system.get(side, "") if run else "",
        tools=specs,
        temperature=definition.temperature,
        top_p=definition.top_p,
        max_tokens=definition.max_tokens,
        reasoning_effort=definition.reasoning_effort,
        thinking_budget=definition.thinking_budget,
        parallel_tool_calls=definition.parallel_tool_calls,
        options=msgspec.json.encode(definition.options) if definition.options else b"{}",
    )


def system_prompt(work: Work, definition: AgentDefinition, values: Mapping[str, str], inputs: Mapping[str, str]) -> str:
    template = (PREFIX if definition.use_default_prefix else "") + definition.prompt
    return render(template, values, inputs)
