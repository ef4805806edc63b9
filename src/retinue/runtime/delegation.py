"""The tools that start and steer children: different arguments, one mechanism.

Who may call whom is decided here (SUB-03); starting itself is
`retinue.runtime.children`. `call_agent` is there for every agent that may
delegate, the others when a definition asks for their form.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from retinue.definition.inputs import check_inputs
from retinue.policy.calls import judge_call
from retinue.policy.patterns import matches
from retinue.ports.tool import Result
from retinue.runtime import children, environment, permit, scope
from retinue.runtime import delegation_specs as specs
from retinue.runtime.state import CallState
from retinue.runtime.system_tools import SystemTool
from retinue.schema.agent import AgentDefinition, Subagent
from retinue.schema.errors import RetinueError
from retinue.schema.events.threads import Pin
from retinue.schema.ids import ThreadId
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.runtime.work import Work


def tools(work: "Work", definition: AgentDefinition, taken: Collection[str]) -> dict[str, SystemTool]:
    """The delegation tools of an agent; none when it may call nobody."""
    found: dict[str, SystemTool] = {}
    pins = callable_pins(work, definition)
    if pins:
        found["call_agent"] = CallAgent(specs.call_agent_spec(pins), pins)
        if _named(definition, "task", when_all=True):
            found["task"] = Task(specs.task_spec(pins), pins)
        if _named(definition, "delegate_to_agent", when_all=False):
            found["delegate_to_agent"] = DelegateToAgent(specs.delegate_spec(pins), pins)
    configured = _configured(work, definition)
    explicit = () if definition.allowed_agents is None else tuple(pins.values())
    names: dict[str, SystemTool] = {}
    for pin in explicit:
        if pin.definition.id not in {p.definition.id for _, p in configured}:
            name = specs.tool_name(pin.definition.id, {*taken, *names})
            names[name] = NamedAgent(specs.named_spec(name, pin.definition), pin)
    for config, pin in configured:
        if config.resumable is None:
            name = specs.tool_name(pin.definition.id, {*taken, *names})
            names[name] = ConfiguredAgent(specs.configured_spec(name, config, pin.definition), config, pin)
    resumable: dict[str, tuple[Subagent, Pin]] = {p.definition.id: (c, p) for c, p in configured if c.resumable}
    if resumable:
        found["subagent_create"] = SubagentCreate(specs.create_spec(resumable), resumable)
        found["subagent_message"] = SubagentMessage(specs.MESSAGE)
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

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        try:
            return await self.delegate(work, state, arguments)
        except RetinueError as error:
            return Result(status="error", text=error.message)

    @abstractmethod
    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None: ...


async def _start(work: "Work", state: CallState, wanted: children.Start) -> Result | None:
    from retinue.runtime import variables

    if denied := _denied(work, state.call.tool, wanted.pin.definition.id):
        return denied
    if why := children.refused(work, wanted.pin, wanted.config):
        return Result(status="error", text=why)
    if missing := variables.missing(work, wanted):
        return variables.request(work, wanted, missing)
    reference = await children.start(work, replace(wanted, env=variables.scoped(work, wanted)))
    if wanted.blocking:
        return None
    return children.running(reference)


def _denied(work: "Work", tool: str, agent: str) -> Result | None:
    """A rule that denies this agent to this tool; what a rule says of `task` holds for every form of delegation."""
    for name in dict.fromkeys((tool, "task")):
        decision = judge_call(permit.authority(work), name, agent)
        if decision.verdict == "deny" and decision.rule is not None:
            return Result(status="denied", text=f"Denied: {decision.reason}.")
    return None


def _unknown(name: str, pins: Mapping[str, object]) -> Result:
    return Result(status="error", text=f"`{name}` is not an agent you may call. You may call: {', '.join(pins)}.")


def _find(work: "Work", pins: Mapping[str, Pin], name: str) -> Pin | None:
    """An id of the list, or another name of one of its agents."""
    found = pins.get(name) or _pin(work, name)
    return pins.get(found.definition.id) if found else None


class CallAgent(Delegation):
    """S0's `call_agent`."""

    def __init__(self, spec: ToolSpec, pins: Mapping[str, Pin]) -> None:
        super().__init__(spec)
        self._pins = pins

    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        asked = msgspec.convert(arguments, scope.Asked)
        pin = _find(work, self._pins, asked.agent_name)
        if pin is None:
            return _unknown(asked.agent_name, self._pins)
        text, attachments = await scope.task_text(work, asked, pin.definition)
        return await _start(
            work,
            state,
            children.Start(pin=pin, text=text, call=state.call.id, name=pin.definition.name, attachments=attachments),
        )


class NamedAgent(Delegation):
    """One agent as a tool of its own: `query`, or the inputs that it declares."""

    def __init__(self, spec: ToolSpec, pin: Pin) -> None:
        super().__init__(spec)
        self._pin = pin

    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        return await _named_start(work, state, self._pin, arguments)


async def _named_start(work: "Work", state: CallState, pin: Pin, arguments: Mapping[str, object]) -> Result | None:
    definition = pin.definition
    if definition.inputs:
        inputs: Mapping[str, object] = check_inputs(definition.inputs, arguments)
        text = "\n".join(f"{name}: {_text(value)}" for name, value in inputs.items())
    else:
        inputs, text = {}, _text(arguments.get("query", ""))
        if not text.strip():
            return Result(status="error", text="`query` is blank; say what the agent has to do.")
    return await _start(
        work, state, children.Start(pin=pin, text=text, call=state.call.id, name=definition.name, inputs=inputs)
    )


class DelegateToAgent(Delegation):
    """S1's one tool for all agents, told apart by `agent_name`."""

    def __init__(self, spec: ToolSpec, pins: Mapping[str, Pin]) -> None:
        super().__init__(spec)
        self._pins = pins

    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        name = _text(arguments.get("agent_name", ""))
        pin = _find(work, self._pins, name)
        if pin is None:
            return _unknown(name, self._pins)
        return await _named_start(work, state, pin, {k: v for k, v in arguments.items() if k != "agent_name"})


class Task(Delegation):
    """S3's `task`; with a `task_id` the same child goes on."""

    def __init__(self, spec: ToolSpec, pins: Mapping[str, Pin]) -> None:
        super().__init__(spec)
        self._pins = pins

    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        text, title = _text(arguments["prompt"]), _text(arguments.get("description", ""))
        if known := arguments.get("task_id"):
            child = work.state.children.get(ThreadId(_text(known)))
            if child is None:
                return Result(status="error", text=f"There is no task {known}. Leave task_id out to start one.")
            return children.message(work, state.call.id, child, text, (), blocking=True)
        name = _text(arguments["subagent_type"])
        pin = _find(work, self._pins, name)
        if pin is None:
            return _unknown(name, self._pins)
        return await _start(
            work,
            state,
            children.Start(pin=pin, text=text, call=state.call.id, name=pin.definition.name, title=title or None),
        )


class ConfiguredAgent(Delegation):
    """S4's subagent that is not resumable: a direct tool, blocking or not."""

    def __init__(self, spec: ToolSpec, config: Subagent, pin: Pin) -> None:
        super().__init__(spec)
        self._config = config
        self._pin = pin

    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        config = self._config
        text = _text(arguments.get(config.init_user_message_property or "message", ""))
        name = _text(arguments.get(config.init_agent_name_property or "", "")) or self._pin.definition.name
        return await _start(
            work,
            state,
            children.Start(
                pin=self._pin,
                text=text,
                call=state.call.id,
                name=name,
                attachments=_paths(arguments, config.init_attachments_property),
                config=config,
                blocking=config.blocking,
            ),
        )


class SubagentCreate(Delegation):
    """Creates a resumable child that can be messaged again."""

    def __init__(self, spec: ToolSpec, known: Mapping[str, tuple[Subagent, Pin]]) -> None:
        super().__init__(spec)
        self._known = known

    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        name = _text(arguments["name"])
        if not name.strip():
            return Result(status="error", text="`name` is empty; give the new instance a name.")
        found = self._known.get(_text(arguments["agent"]))
        if found is None:
            return _unknown(_text(arguments["agent"]), self._known)
        config, pin = found
        return await _start(
            work,
            state,
            children.Start(
                pin=pin,
                text=_text(arguments["message"]),
                call=state.call.id,
                name=name,
                title=_text(arguments.get("title", "")) or None,
                description=_text(arguments.get("description", "")),
                attachments=_paths(arguments, ("attachments",)),
                config=config,
                blocking=config.blocking,
            ),
        )


class SubagentMessage(Delegation):
    async def delegate(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        child = work.state.children.get(ThreadId(_text(arguments["reference"])))
        if child is None or not child.started.resumable:
            known = ", ".join(c.started.reference for c in work.state.children.values() if c.started.resumable)
            return Result(status="error", text=f"There is no such instance; there are: {known or 'none'}.")
        paths = _paths(arguments, ("attachments",))
        text, blocking = _text(arguments["message"]), child.started.blocking
        return children.message(work, state.call.id, child, text, paths, blocking=blocking)


def _paths(arguments: Mapping[str, object], properties: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for name in properties:
        value = arguments.get(name)
        found += [value] if isinstance(value, str) else msgspec.convert(value or [], list[str])
    return tuple(found)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
