"""The tools that start and steer children: different arguments, one mechanism.

Who may call whom is decided here (SUB-03); starting itself is
`retinue.runtime.children`. `call_agent` is there for every agent that may
delegate, the others when a definition asks for their form.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from retinue.definition.inputs import check_inputs
from retinue.policy.calls import judge_call
from retinue.policy.patterns import matches
from retinue.ports.tool import Result
from retinue.runtime import children, environment, permit, scope, variables
from retinue.runtime import delegation_specs as specs
from retinue.runtime.state import CallState
from retinue.runtime.stops import plain
from retinue.runtime.system_tools import SystemTool
from retinue.schema.agent import AgentDefinition, Subagent
from retinue.schema.errors import RetinueError, UsageError
from retinue.schema.events.threads import Pin
from retinue.schema.ids import ThreadId
from retinue.schema.message import Call
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.runtime.work import Work

Delegate = Callable[["Work", Call, Mapping[str, object]], Awaitable[Result | None]]


def tools(work: "Work", definition: AgentDefinition, taken: Collection[str]) -> dict[str, SystemTool]:
    """The delegation tools of an agent; none when it may call nobody."""
    found: dict[str, SystemTool] = {}
    pins = callable_pins(work, definition)
    if pins:
        found["call_agent"] = Delegation(specs.call_agent_spec(pins), partial(_call_agent, pins))
        if _named(definition, "task", when_all=True):
            found["task"] = Delegation(specs.task_spec(pins), partial(_task, pins))
        if _named(definition, "delegate_to_agent", when_all=False):
            found["delegate_to_agent"] = Delegation(specs.delegate_spec(pins), partial(_delegate_to_agent, pins))
    configured = _configured(work, definition)
    explicit = () if definition.allowed_agents is None else tuple(pins.values())
    names: dict[str, SystemTool] = {}
    for pin in explicit:
        if pin.definition.id not in {p.definition.id for _, p in configured}:
            name = specs.tool_name(pin.definition.id, {*taken, *names})
            names[name] = Delegation(specs.named_spec(name, pin.definition), partial(_named_agent, pin))
    for config, pin in configured:
        if config.resumable is None:
            name = specs.tool_name(pin.definition.id, {*taken, *names})
            spec = specs.configured_spec(name, config, pin.definition)
            names[name] = Delegation(spec, partial(_configured_agent, config, pin))
    resumable: dict[str, tuple[Subagent, Pin]] = {p.definition.id: (c, p) for c, p in configured if c.resumable}
    if resumable:
        found["subagent_create"] = Delegation(specs.create_spec(resumable), partial(_create, resumable))
        found["subagent_message"] = Delegation(specs.MESSAGE, _message)
    return {**found, **names}


def listed(work: "Work", definition: AgentDefinition) -> tuple[AgentDefinition, ...]:
    """The agents that `{{allowed_agents}}` names."""
    pins = callable_pins(work, definition)
    extra = {p.definition.id: p for _, p in _configured(work, definition)}
    return tuple(pin.definition for pin in {**pins, **extra}.values())


def callable_pins(work: "Work", definition: AgentDefinition) -> dict[str, Pin]:
    """Whom this agent may call, by id (SUB-03)."""
    names = definition.allowed_agents
    if not definition.can_spawn_subagents or names == ():
        return {}
    if names is None or "*" in names:
        if names is None and (definition.category == "subagent" or definition.subagents):
            return {}
        pins = work.runtime.agents.delegates(work.state.thread.tenant)
    else:
        pins = ()
    named = tuple(pin for name in names or () if name != "*" and (pin := _pin(work, name)) is not None)
    own = work.state.pin.definition.id
    return {p.definition.id: p for p in (*pins, *named) if not _hidden(p.definition) and p.definition.id != own}


def _hidden(definition: AgentDefinition) -> bool:
    return definition.hidden or definition.category == "hidden"


def _pin(work: "Work", name: str) -> Pin | None:
    """An agent that can't be resolved is left out; `agents validate` warns of it."""
    try:
        return work.runtime.agents.pin(name, work.state.thread.tenant)
    except RetinueError:
        return None


def _configured(work: "Work", definition: AgentDefinition) -> list[tuple[Subagent, Pin]]:
    return [
        (config, pin)
        for config in definition.subagents
        if environment.enabled(work, config.optional) and (pin := _pin(work, config.name)) is not None
    ]


def _named(definition: AgentDefinition, tool: str, *, when_all: bool) -> bool:
    lists = definition.tools.only
    return when_all if not lists else all(any(matches(p, tool) for p in names) for names in lists)


class Delegation(SystemTool):
    """Starts one child or speaks to one; what goes wrong is an outcome."""

    starts_child = True

    def __init__(self, spec: ToolSpec, delegate: Delegate) -> None:
        super().__init__(spec)
        self._delegate = delegate

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        try:
            return await self._delegate(work, state.call, arguments)
        except RetinueError as error:
            return Result(status="error", text=error.message)


async def _start(work: "Work", call: Call, pin: Pin, wanted: children.Start) -> Result | None:
    """What a rule says of `task` holds for every form of delegation."""
    for name in dict.fromkeys((call.tool, "task")):
        decision = judge_call(permit.authority(work), name, pin.definition.id)
        if decision.verdict == "deny" and decision.rule is not None:
            return Result(status="denied", text=f"Denied: {decision.reason}.")
    return await variables.begin(work, pin, wanted)


def _find(work: "Work", pins: Mapping[str, Pin], name: str) -> Pin:
    """An id of the list, or another name of one of its agents."""
    pin = pins.get(name) or _pin(work, name)
    if pin is None or pin.definition.id not in pins:
        raise UsageError(f"`{name}` is not an agent you may call. You may call: {', '.join(pins)}.")
    return pin


async def _call_agent(
    pins: Mapping[str, Pin], work: "Work", call: Call, arguments: Mapping[str, object]
) -> Result | None:
    """S0's `call_agent`."""
    asked = msgspec.convert(arguments, scope.Asked)
    pin = _find(work, pins, asked.agent_name)
    text, attachments = await scope.task_text(work, asked, pin.definition)
    return await _start(work, call, pin, children.Start(call=call.id, text=text, attachments=attachments))


async def _named_agent(pin: Pin, work: "Work", call: Call, arguments: Mapping[str, object]) -> Result | None:
    """One agent as a tool of its own: `query`, or the inputs that it declares."""
    if pin.definition.inputs:
        inputs: Mapping[str, object] = check_inputs(pin.definition.inputs, arguments)
        text = "\n".join(f"{name}: {plain(value)}" for name, value in inputs.items())
    else:
        inputs, text = {}, plain(arguments.get("query", ""))
        if not text.strip():
            raise UsageError("`query` is blank; say what the agent has to do.")
    return await _start(work, call, pin, children.Start(call=call.id, text=text, inputs=inputs))


async def _delegate_to_agent(
    pins: Mapping[str, Pin], work: "Work", call: Call, arguments: Mapping[str, object]
) -> Result | None:
    """S1's one tool for all agents, told apart by `agent_name`."""
    pin = _find(work, pins, plain(arguments["agent_name"]))
    return await _named_agent(pin, work, call, {k: v for k, v in arguments.items() if k != "agent_name"})


async def _task(pins: Mapping[str, Pin], work: "Work", call: Call, arguments: Mapping[str, object]) -> Result | None:
    """S3's `task`; with a `task_id` the same child goes on."""
    text, title = plain(arguments["prompt"]), plain(arguments.get("description", ""))
    if known := arguments.get("task_id"):
        child = work.state.children.get(ThreadId(plain(known)))
        if child is None:
            raise UsageError(f"There is no task {known}. Leave task_id out to start one.")
        return children.message(work, call.id, child, text, (), blocking=True)
    pin = _find(work, pins, plain(arguments["subagent_type"]))
    return await _start(work, call, pin, children.Start(call=call.id, text=text, title=title or None))


async def _configured_agent(
    config: Subagent, pin: Pin, work: "Work", call: Call, arguments: Mapping[str, object]
) -> Result | None:
    """S4's subagent that is not resumable: a direct tool, blocking or not."""
    wanted = children.Start(
        call=call.id,
        text=plain(arguments.get(config.init_user_message_property or "message", "")),
        name=plain(arguments.get(config.init_agent_name_property or "", "")),
        attachments=_paths(arguments, config.init_attachments_property),
        config=config,
        blocking=config.blocking,
    )
    return await _start(work, call, pin, wanted)


async def _create(
    known: Mapping[str, tuple[Subagent, Pin]], work: "Work", call: Call, arguments: Mapping[str, object]
) -> Result | None:
    """Creates a resumable child that can be messaged again."""
    name, agent = plain(arguments["name"]), plain(arguments["agent"])
    if not name.strip():
        raise UsageError("`name` is empty; give the new instance a name.")
    pin = _find(work, {id: pin for id, (_, pin) in known.items()}, agent)
    config = known[pin.definition.id][0]
    wanted = children.Start(
        call=call.id,
        text=plain(arguments["message"]),
        name=name,
        title=plain(arguments.get("title", "")) or None,
        description=plain(arguments.get("description", "")),
        attachments=_paths(arguments, ("attachments",)),
        config=config,
        blocking=config.blocking,
    )
    return await _start(work, call, pin, wanted)


async def _message(work: "Work", call: Call, arguments: Mapping[str, object]) -> Result | None:
    child = work.state.children.get(ThreadId(plain(arguments["reference"])))
    if child is None or not child.started.resumable:
        known = ", ".join(c.started.reference for c in work.state.children.values() if c.started.resumable)
        raise UsageError(f"There is no such instance; there are: {known or 'none'}.")
    text, paths = plain(arguments["message"]), _paths(arguments, ("attachments",))
    return children.message(work, call.id, child, text, paths, blocking=child.started.blocking)


def _paths(arguments: Mapping[str, object], properties: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for name in properties:
        value = arguments.get(name)
        found += [value] if isinstance(value, str) else msgspec.convert(value or [], list[str])
    return tuple(found)
