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


def _object(properties: dict[str, object], *required: str) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _string(description: str) -> dict[str, object]:
    return {"type": "string", "description": description}


_ATTACHMENTS: dict[str, object] = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Paths of files to hand over",
}
MESSAGE = ToolSpec(
    name="subagent_message",
    description="Send a message to an existing subagent instance.",
    parameters=_object(
        {"reference": _string("Its reference"), "message": _string("The message"), "attachments": _ATTACHMENTS},
        "reference",
        "message",
    ),
)


def call_agent_spec(pins: Mapping[str, Pin]) -> ToolSpec:
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


def task_spec(pins: Mapping[str, Pin]) -> ToolSpec:
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


def delegate_spec(pins: Mapping[str, Pin]) -> ToolSpec:
    """One tool for all: `agent_name` decides which of the other properties are wanted."""
    properties: dict[str, object] = {"agent_name": {"type": "string", "enum": list(pins), "description": "Which agent"}}
    lines: list[str] = []
    for id, pin in pins.items():
        schema = input_schema(pin.definition.inputs)
        wanted = msgspec.convert(schema["properties"], dict[str, object])
        for name, value in wanted.items():
            properties[name] = value if properties.get(name, value) == value else {"description": "See the agent"}
        lines.append(f"- {id} (takes {', '.join(wanted)}): {described(pin.definition)}")
    text = "\n".join(lines)
    return ToolSpec(
        name="delegate_to_agent",
        description=f"Delegate a task to one of these agents, each with the properties that it takes:\n{text}",
        parameters=_object(properties, "agent_name"),
    )


def named_spec(name: str, definition: AgentDefinition) -> ToolSpec:
    return ToolSpec(name=name, description=described(definition), parameters=input_schema(definition.inputs))


def configured_spec(name: str, config: Subagent, definition: AgentDefinition) -> ToolSpec:
    message = config.init_user_message_property or "message"
    properties: dict[str, object] = {message: _string("What the subagent has to do")}
    for attachment in config.init_attachments_property:
        properties[attachment] = _ATTACHMENTS
    if config.init_agent_name_property:
        properties[config.init_agent_name_property] = _string("A name for this instance")
    return ToolSpec(name=name, description=described(definition), parameters=_object(properties, message))


def create_spec(known: Mapping[str, tuple[Subagent, Pin]]) -> ToolSpec:
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
