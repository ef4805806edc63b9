"""The tools that start and steer children: different arguments, one mechanism.

Who may call whom is decided here (SUB-03); starting itself is
`retinue.runtime.children`. `call_agent` is there for every agent that may
delegate, the others when a definition asks for their form.
"""

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from retinue.definition.inputs import check_inputs, input_schema
from retinue.policy.patterns import matches
from retinue.ports.tool import Result
from retinue.runtime import children, environment, scope
from retinue.runtime.state import CallState
from retinue.runtime.system_tools import SystemTool
from retinue.schema.agent import AgentDefinition, Subagent
from retinue.schema.errors import RetinueError
from retinue.schema.events.threads import Pin
from retinue.schema.ids import ThreadId
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.runtime.work import Work

PREFIX = "agent_"
NAMES = frozenset({"call_agent", "task", "delegate_to_agent", "subagent_create", "subagent_message"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64


def is_one(name: str) -> bool:
    return name in NAMES or name.startswith((PREFIX, "handoff_"))


def tools(work: "Work", definition: AgentDefinition, taken: Collection[str]) -> dict[str, SystemTool]:
    """The delegation tools of an agent; none when it may call nobody."""
    found: dict[str, SystemTool] = {}
    pins = callable_pins(work, definition)
    if pins:
        found["call_agent"] = CallAgent(_call_agent_spec(pins), pins)
        if _named(definition, "task", when_all=True):
            found["task"] = Task(_task_spec(pins), pins)
        if _named(definition, "delegate_to_agent", when_all=False):
            found["delegate_to_agent"] = DelegateToAgent(_delegate_spec(pins), pins)
    configured = _configured(work, definition)
    explicit = () if definition.allowed_agents is None else tuple(pins.values())
    names: dict[str, SystemTool] = {}
    for pin in explicit:
        if pin.definition.id not in {p.definition.id for _, p in configured}:
            name = tool_name(pin.definition.id, {*taken, *names})
            names[name] = NamedAgent(_named_spec(name, pin.definition), pin)
    for config, pin in configured:
        if config.resumable is None:
            name = tool_name(pin.definition.id, {*taken, *names})
            names[name] = ConfiguredAgent(_configured_spec(name, config, pin.definition), config, pin)
    resumable: dict[str, tuple[Subagent, Pin]] = {p.definition.id: (c, p) for c, p in configured if c.resumable}
    if resumable:
        found["subagent_create"] = SubagentCreate(_create_spec(resumable), resumable)
        found["subagent_message"] = SubagentMessage(_MESSAGE_SPEC)
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
        pins = tuple(pin for name in names if (pin := _pin(work, name)) is not None)
    own = work.state.pin.definition.id
    return {p.definition.id: p for p in pins if p.definition.category != "hidden" and p.definition.id != own}


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


def tool_name(id: str, taken: set[str], prefix: str = PREFIX) -> str:
    """`agent_` and the id in the characters that providers take; a hash where it was cut or would clash."""
    name = prefix + _UNSAFE.sub("_", id)
    if len(name) > _MAX_NAME or name in taken:
        digest = sha256(id.encode()).hexdigest()[:8]
        name = f"{name[: _MAX_NAME - 9]}_{digest}"
    return name


def described(definition: AgentDefinition) -> str:
    text = definition.tool_description or definition.description
    if not text:
        provider, model = definition.provider or "default", definition.model or "default"
        text = f"Named agent: {definition.name} (Provider: {provider}, Model: {model})"
    examples = "".join(f"\n- {example}" for example in definition.examples)
    return f"{text}\nExamples:{examples}" if examples else text


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


async def _start(work: "Work", wanted: children.Start) -> Result | None:
    from retinue.runtime import variables

    if why := children.refused(work, wanted.pin, wanted.config):
        return Result(status="error", text=why)
    if missing := variables.missing(work, wanted):
        return variables.request(work, wanted, missing)
    reference = await children.start(work, replace(wanted, env=variables.scoped(work, wanted)))
    if wanted.blocking:
        return None
    return Result(text=msgspec.json.encode({"reference": reference, "status": "running"}).decode())


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
        work, children.Start(pin=pin, text=text, call=state.call.id, name=definition.name, inputs=inputs)
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
            children.message(work, state.call.id, child, text, (), blocking=True)
            return None
        name = _text(arguments["subagent_type"])
        pin = _find(work, self._pins, name)
        if pin is None:
            return _unknown(name, self._pins)
        return await _start(
            work,
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
        if child.status == "terminated":
            return Result(status="error", text="That instance is terminated; create another one.")
        blocking = child.started.blocking
        paths = _paths(arguments, ("attachments",))
        children.message(work, state.call.id, child, _text(arguments["message"]), paths, blocking=blocking)
        if blocking:
            return None
        return Result(text=msgspec.json.encode({"reference": child.started.reference, "status": "running"}).decode())


def _paths(arguments: Mapping[str, object], properties: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for name in properties:
        value = arguments.get(name)
        found += [value] if isinstance(value, str) else msgspec.convert(value or [], list[str])
    return tuple(found)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# what the model is shown


def _agent_list(pins: Mapping[str, Pin]) -> str:
    return "\n".join(f"- {id}: {described(pin.definition)}" for id, pin in pins.items())


def _object(properties: dict[str, object], *required: str) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _string(description: str) -> dict[str, object]:
    return {"type": "string", "description": description}


_ATTACHMENTS: dict[str, object] = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Paths of files to hand over",
}
_MESSAGE_SPEC = ToolSpec(
    name="subagent_message",
    description="Send a message to an existing subagent instance.",
    parameters=_object(
        {"reference": _string("Its reference"), "message": _string("The message"), "attachments": _ATTACHMENTS},
        "reference",
        "message",
    ),
)


def _call_agent_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    return ToolSpec(
        name="call_agent",
        description=f"Delegate a task to another agent and wait for its result. Agents:\n{_agent_list(pins)}",
        parameters=_object(
            {
                "agent_name": _string("Name of agent to call (e.g., 'sales/pr-agent')"),
                "input": {"type": "string", "minLength": 1, "description": "Task description for the agent"},
                "context_scope": {
                    "type": "string",
                    "enum": ["FULL", "NONE", "SPECIFIC"],
                    "default": "FULL",
                    "description": "How much context to share with child agent",
                },
                "context": {
                    "type": "object",
                    "description": "What to share with SPECIFIC",
                    "properties": {
                        "messages": {"type": "array", "items": {"type": "string"}},
                        "memory_keys": {"type": "array", "items": {"type": "string"}},
                        "attachments": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
            "agent_name",
            "input",
        ),
    )


def _task_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    return ToolSpec(
        name="task",
        description=f"Start a subagent for a self-contained task. Subagent types:\n{_agent_list(pins)}",
        parameters=_object(
            {
                "subagent_type": _string("Which subagent"),
                "description": _string("The task in three to five words"),
                "prompt": {"type": "string", "minLength": 1, "description": "Everything the subagent needs to know"},
                "task_id": _string("The reference of an earlier task, to go on with it"),
            },
            "subagent_type",
            "description",
            "prompt",
        ),
    )


def _delegate_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    variants: list[object] = []
    for id, pin in pins.items():
        schema = input_schema(pin.definition.inputs)
        properties = msgspec.convert(schema["properties"], dict[str, object])
        required = msgspec.convert(schema.get("required", []), list[str])
        variants.append(_object({"agent_name": {"const": id}, **properties}, "agent_name", *required))
    return ToolSpec(
        name="delegate_to_agent",
        description=f"Delegate a task to one of these agents:\n{_agent_list(pins)}",
        parameters={"type": "object", "oneOf": variants},
    )


def _named_spec(name: str, definition: AgentDefinition) -> ToolSpec:
    return ToolSpec(name=name, description=described(definition), parameters=input_schema(definition.inputs))


def _configured_spec(name: str, config: Subagent, definition: AgentDefinition) -> ToolSpec:
    message = config.init_user_message_property or "message"
    properties: dict[str, object] = {message: _string("What the subagent has to do")}
    for attachment in config.init_attachments_property:
        properties[attachment] = _ATTACHMENTS
    if config.init_agent_name_property:
        properties[config.init_agent_name_property] = _string("A name for this instance")
    return ToolSpec(name=name, description=described(definition), parameters=_object(properties, message))


def _create_spec(known: Mapping[str, tuple[Subagent, Pin]]) -> ToolSpec:
    pins = {id: pin for id, (_, pin) in known.items()}
    return ToolSpec(
        name="subagent_create",
        description=f"Create a subagent instance that keeps its memory between messages. Agents:\n{_agent_list(pins)}",
        parameters=_object(
            {
                "agent": {"type": "string", "enum": list(known), "description": "Which agent"},
                "name": _string("A name for this instance"),
                "title": _string("A short title"),
                "description": _string("What this instance is for"),
                "message": _string("The first message to it"),
                "attachments": _ATTACHMENTS,
            },
            "agent",
            "name",
            "message",
        ),
    )
