"""What a model is shown of the delegation tools: their names, descriptions and parameters.

Parameters are plain objects: providers refuse a union at the top of a tool's
schema, so what depends on the agent is checked when the call is settled.
"""

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

import msgspec

from retinue.definition.inputs import input_schema
from retinue.schema.agent import AgentDefinition, Subagent
from retinue.schema.events.threads import Pin
from retinue.schema.tool import ToolSpec

PREFIX = "agent_"
HANDOFF = "handoff_"
NAMES = frozenset({"call_agent", "task", "delegate_to_agent", "subagent_create", "subagent_message"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64


def starts_children(tool: str) -> bool:
    return tool in NAMES or tool.startswith(PREFIX)


def delegates(tool: str) -> bool:
    return starts_children(tool) or tool.startswith(HANDOFF)


def tool_name(id: str, taken: Collection[str], prefix: str = PREFIX) -> str:
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


def _agent_list(pins: Mapping[str, Pin]) -> str:
    return "\n".join(f"- {id}: {described(pin.definition)}" for id, pin in pins.items())


def _tool(name: str, description: str, properties: Mapping[str, object], *required: str) -> ToolSpec:
    parameters = {"type": "object", "properties": dict(properties), "required": list(required)}
    return ToolSpec(name=name, description=description, parameters=parameters)


def _string(description: str, **more: object) -> dict[str, object]:
    return {"type": "string", **more, "description": description}


_STRINGS: dict[str, object] = {"type": "array", "items": {"type": "string"}}
_ATTACHMENTS: dict[str, object] = {**_STRINGS, "description": "Paths of files to hand over"}
MESSAGE = _tool(
    "subagent_message",
    "Send a message to an existing subagent instance.",
    {"reference": _string("Its reference"), "message": _string("The message"), "attachments": _ATTACHMENTS},
    "reference",
    "message",
)


def call_agent_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    shared = {"messages": _STRINGS, "memory_keys": _STRINGS, "attachments": _STRINGS}
    scopes = ["FULL", "NONE", "SPECIFIC"]
    return _tool(
        "call_agent",
        f"Delegate a task to another agent and wait for its result. Agents:\n{_agent_list(pins)}",
        {
            "agent_name": _string("Name of agent to call (e.g., 'sales/pr-agent')"),
            "input": _string("Task description for the agent", minLength=1),
            "context_scope": _string("How much context to share with child agent", enum=scopes, default="FULL"),
            "context": {"type": "object", "description": "What to share with SPECIFIC", "properties": shared},
        },
        "agent_name",
        "input",
    )


def task_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    return _tool(
        "task",
        f"Start a subagent for a self-contained task. Subagent types:\n{_agent_list(pins)}",
        {
            "subagent_type": _string("Which subagent"),
            "description": _string("The task in three to five words"),
            "prompt": _string("Everything the subagent needs to know", minLength=1),
            "task_id": _string("The reference of an earlier task, to go on with it"),
        },
        "subagent_type",
        "description",
        "prompt",
    )


def delegate_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    """One tool for all: `agent_name` decides which of the other properties are wanted."""
    properties: dict[str, object] = {"agent_name": _string("Which agent", enum=list(pins))}
    lines: list[str] = []
    for id, pin in pins.items():
        schema = input_schema(pin.definition.inputs)
        wanted = msgspec.convert(schema["properties"], dict[str, object])
        for name, value in wanted.items():
            properties[name] = value if properties.get(name, value) == value else {"description": "See the agent"}
        lines.append(f"- {id} (takes {', '.join(wanted)}): {described(pin.definition)}")
    about = "Delegate a task to one of these agents, each with the properties that it takes:\n" + "\n".join(lines)
    return _tool("delegate_to_agent", about, properties, "agent_name")


def named_spec(name: str, definition: AgentDefinition) -> ToolSpec:
    return ToolSpec(name=name, description=described(definition), parameters=input_schema(definition.inputs))


def configured_spec(name: str, config: Subagent, definition: AgentDefinition) -> ToolSpec:
    message = config.init_user_message_property or "message"
    properties = {message: _string("What the subagent has to do")}
    properties |= dict.fromkeys(config.init_attachments_property, _ATTACHMENTS)
    if config.init_agent_name_property:
        properties[config.init_agent_name_property] = _string("A name for this instance")
    return _tool(name, described(definition), properties, message)


def create_spec(known: Mapping[str, tuple[Subagent, Pin]]) -> ToolSpec:
    agents = _agent_list({id: pin for id, (_, pin) in known.items()})
    return _tool(
        "subagent_create",
        f"Create a subagent instance that keeps its memory between messages. Agents:\n{agents}",
        {
            "agent": _string("Which agent", enum=list(known)),
            "name": _string("A name for this instance"),
            "title": _string("A short title"),
            "description": _string("What this instance is for"),
            "message": _string("The first message to it"),
            "attachments": _ATTACHMENTS,
        },
        "agent",
        "name",
        "message",
    )
