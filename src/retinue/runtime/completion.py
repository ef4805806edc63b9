"""The completion tool, and the one value that says how a run ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from retinue.runtime.state import State
from retinue.schema.agent import AgentDefinition
from retinue.schema.completion import Completion, Reason, Status
from retinue.schema.errors import RetinueError
from retinue.schema.tool import ToolSpec

COMPLETE = "complete_agent_execution"
ALIAS = "complete_task"
NAMES = frozenset({COMPLETE, ALIAS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A run is over; everything else in its completion is known to the state."""

    result: object
    status: Status
    reason: Reason
    confidence: float | None = None
    requires_followup: bool = False
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    attachments: tuple[str, ...] = ()
    error: str | None = None


def failed(error: RetinueError) -> Finish:
    """An expected failure ends a run in its own words."""
    text = f"{error.message}; {error.hint}" if error.hint else error.message
    return Finish(result="", status="FAILED", reason="error", error=text)


class _Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    status: Status = "SUCCESS"
    confidence: float | None = None
    requires_followup: bool = False
    metadata: dict[str, object] = {}
    attachments: tuple[str, ...] | str = ()


def completion_spec(definition: AgentDefinition) -> ToolSpec:
    """S0's schema; with an output schema, `result` becomes the property that the agent names."""
    output = definition.output
    name = output.name if output else "result"
    wanted: dict[str, object] = {"type": "string", "minLength": 1, "description": "Final result of the task"}
    if output:
        wanted = {**output.schema}
        if output.description:
            wanted["description"] = output.description
    properties: dict[str, object] = {
        name: wanted,
        "status": {
            "type": "string",
            "enum": ["SUCCESS", "PARTIAL", "FAILED"],
            "description": "SUCCESS: done. PARTIAL: some of it. FAILED: could not be done; say why in the result.",
        },
        "confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "Confidence in the result (0-1)"},
        "requiresFollowup": {"type": "boolean", "default": False, "description": "Whether more work is needed"},
        "metadata": {"type": "object", "description": "Additional structured data about the completion"},
    }
    return ToolSpec(
        name=COMPLETE,
        description="Signal completion of the task. REQUIRED to finish: nothing you say without it is a result.",
        parameters={"type": "object", "properties": properties, "required": [name, "status"]},
        effect="read",
    )


def with_default_status(tool: str, arguments: str) -> str:
    """`complete_task` means SUCCESS when it does not say otherwise."""
    if tool != ALIAS:
        return arguments
    try:
        given = msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except msgspec.DecodeError:
        return arguments
    return msgspec.json.encode({"status": "SUCCESS", **given}).decode()


def rejection(definition: AgentDefinition, arguments: Mapping[str, object]) -> str | None:
    """Why arguments that fit the schema still are no result."""
    name = definition.output.name if definition.output else "result"
    value = arguments.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        return f"`{name}` is empty. Give the result itself, then finish."
    return None


def finish_from(definition: AgentDefinition, arguments: str) -> Finish:
    """The finish that an accepted completion call says."""
    values = msgspec.json.decode(arguments or "{}", type=dict[str, object])
    given = msgspec.convert({k: v for k, v in values.items() if v is not None}, _Given)
    name = definition.output.name if definition.output else "result"
    return Finish(
        result=values.get(name),
        status=given.status,
        reason="goal",
        confidence=given.confidence,
        requires_followup=given.requires_followup,
        metadata=given.metadata,
        attachments=(given.attachments,) if isinstance(given.attachments, str) else given.attachments,
        error=str(values.get(name)) if given.status == "FAILED" else None,
    )


def completion_of(state: State, finish: Finish, *, spent: float) -> Completion:
    """What every surface shows of a run that ended with `finish`."""
    run = state.run
    recovered = run.grace if run and finish.reason == "goal" else None
    return Completion(
        result=finish.result,
        status=finish.status,
        reason=finish.reason,
        confidence=finish.confidence,
        requires_followup=finish.requires_followup,
        metadata=finish.metadata,
        attachments=finish.attachments,
        error=finish.error,
        recovered_from=recovered,
        steps=run.steps if run else 0,
        calls=tuple(run.calls) if run else (),
        usage=run.usage if run else state.usage,
        cost=run.cost if run else state.cost,
        duration=round(spent, 3),
        agent=state.pin.definition.id,
        definition_hash=state.pin.definition.hash,
        commit=state.pin.commit,
        thread=state.thread.thread,
    )
