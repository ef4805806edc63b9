"""Questions: what a person must answer before a call can go on.

Asking is an event, waiting is a parked thread, and the answer comes through the
inbox, from any surface and after any number of restarts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from retinue.ports.tool import Result
from retinue.runtime.state import CallState
from retinue.runtime.system_tools import SystemTool
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.steps import CallSettled
from retinue.schema.ids import question_id
from retinue.schema.message import Outcome
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from retinue.runtime.work import Work

NOBODY = "Nobody can be asked in this run. Go on without the answer, or finish and say what you would need."
InputType = Literal["text", "choice", "file", "approval"]


class _Asked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    prompt: str
    input_type: InputType = "text"
    choices: tuple[str, ...] = ()
    required: bool = True
    timeout_minutes: float = 1440.0


class RequestUserInput(SystemTool):
    """S0's `request_user_input`; `question` is the same tool under the name that other tools give it."""

    def __init__(self, name: str) -> None:
        super().__init__(_input_spec(name))

    async def settle(self, work: "Work", state: CallState, arguments: Mapping[str, object]) -> Result | None:
        if state.reply is not None:
            return _answered(state.reply)
        asked = msgspec.convert(arguments, _Asked)
        if asked.input_type == "choice" and not asked.choices:
            return Result(status="error", text="inputType is 'choice' but `choices` is missing or empty; list them.")
        if work.state.thread.people == "none":
            return Result(status="error" if asked.required else "ok", text=NOBODY if asked.required else "null")
        now = work.now
        work.record(
            QuestionAsked(
                at=now,
                id=question_id(state.call.id, "input"),
                call=state.call.id,
                kind=asked.input_type,
                prompt=asked.prompt,
                choices=asked.choices,
                required=asked.required,
                expires=now + asked.timeout_minutes * 60,
            )
        )
        return None


def _input_spec(name: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="Request input from the user. Execution pauses until the answer is there.",
        parameters={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "minLength": 1, "description": "Question to show the user"},
                "inputType": {
                    "type": "string",
                    "enum": ["text", "choice", "file", "approval"],
                    "default": "text",
                    "description": "Type of input expected",
                },
                "choices": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Available choices if inputType is 'choice'",
                },
                "required": {"type": "boolean", "default": True, "description": "Whether input is required"},
                "timeoutMinutes": {"type": "number", "exclusiveMinimum": 0, "default": 1440},
            },
            "required": ["prompt"],
        },
        effect="read",
    )


def tools() -> dict[str, SystemTool]:
    return {name: RequestUserInput(name) for name in ("request_user_input", "question")}


def _answered(reply: QuestionSettled) -> Result:
    text = reply.answer if isinstance(reply.answer, str) else msgspec.json.encode(reply.answer).decode()
    return Result(text=text, metadata={"by": reply.by} if reply.by else {})


def expire(work: "Work") -> None:
    """Settle what nobody answered in time, also when the time came while no process ran."""
    for state in work.state.open_calls:
        asked = state.question
        if asked is None or state.reply is not None or asked.expires is None or asked.expires > work.now:
            continue
        work.record(QuestionSettled(at=work.now, id=asked.id, call=asked.call, status="expired"))
        outcome = Outcome(call=asked.call, tool=state.call.tool, text="null")
        if asked.required:
            text = "Nobody answered in time."
            outcome = Outcome(call=asked.call, tool=state.call.tool, status="timed_out", text=text)
        work.record(CallSettled(at=work.now, outcome=outcome))


def loop_may_go_on(work: "Work", state: CallState) -> bool:
    """The guard against a model that repeats itself: ask a person, or end the run when nobody can be asked."""
    signature, times = work.state.repeated
    limit = work.runtime.tuning.repeated_calls
    if times < limit or times % limit or signature != f"{state.call.tool} {state.call.arguments}":
        return True
    if state.reply is not None and state.question is not None and state.question.kind == "loop":
        if state.reply.answer is True or state.reply.answer == "yes":
            return True
        text = "A person stopped this: the same call was made again and again. Do something else."
        work.record(
            CallSettled(
                at=work.now, outcome=Outcome(call=state.call.id, tool=state.call.tool, status="denied", text=text)
            )
        )
        return False
    if work.state.thread.people == "none":
        work.looping = True
        return False
    work.record(
        QuestionAsked(
            at=work.now,
            id=question_id(state.call.id, "loop"),
            call=state.call.id,
            kind="loop",
            prompt=f"`{state.call.tool}` was called {times} times in a row with the same arguments. Go on?",
            choices=("yes", "no"),
            tool=state.call.tool,
            arguments=state.call.arguments,
        )
    )
    return False
