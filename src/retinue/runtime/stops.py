"""Whether a step that is fully settled ends the turn or the run.

In S4's order: session bindings, the completion tool, the side's stop tool, stop on
response. Limits are judged before the next request, in `retinue.runtime.moves`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from retinue.runtime.completion import ALIAS, COMPLETE, Finish, finish_from
from retinue.runtime.state import CallState, RunState, State
from retinue.schema.agent import Binding, Side
from retinue.schema.completion import Reason
from retinue.schema.events.steps import ModelAnswered
from retinue.schema.ids import CallId
from retinue.schema.message import text_of
from retinue.schema.thread import SideName

GRACE_EXPLICIT = (
    "You have to stop here: {why}. This is your last chance to answer. Call the completion tool now with the best "
    "result you have; use status PARTIAL or FAILED if the task is not done. No other tool is available."
)
GRACE_RESPONSE = (
    "You have to stop here: {why}. No tools are available any more. Answer now with what you have found out, and say "
    "plainly what is missing."
)
WHY: dict[Reason, str] = {
    "max_steps": "the limit of steps is reached",
    "timeout": "the time is up",
    "no_completion": "you replied without calling the completion tool, which is required",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTurn:
    side: SideName
    why: str
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """One recovery turn that offers only the completion tool."""

    recovering_from: Reason
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Another agent takes the thread over; `call` asked for it."""

    agent: str
    call: CallId


Stop = Finish | EndTurn | Grace | HandOver


def after_step(state: State) -> Stop | None:
    """What the settled step means; None: ask again."""
    run, answer = state.run, state.answer
    if run is None or answer is None:
        return None
    side = side_of(state, answer.side)
    done: dict[str, CallState] = {}
    for call in state.calls.values():
        if call.outcome is not None and call.outcome.status == "ok":
            done.setdefault(call.call.tool, call)
    return (
        _by_binding(side, done)
        or _by_completion(state, done)
        or _by_handoff(done)
        or _by_stop_tool(state, side, answer.side, done)
        or _by_response(state, run, side, answer)
    )


def side_of(state: State, side: SideName) -> Side:
    definition = state.pin.definition
    return definition.side_a if side == "a" else definition.side_b or Side()


def recover(state: State, reason: Reason) -> Grace | Finish:
    """The recovery turn, or the end when there was one already."""
    run = state.run
    if run is None or run.grace is not None:
        return give_up(state, (run.grace if run else None) or reason)
    text = GRACE_RESPONSE if run.started.completion == "response" else GRACE_EXPLICIT
    return Grace(recovering_from=reason, text=text.format(why=WHY[reason]))


def give_up(state: State, reason: Reason) -> Finish:
    text = state.run.last_text if state.run else ""
    return Finish(
        result=text,
        status="FAILED",
        reason=reason,
        error=f"The run ended without a result: {WHY.get(reason, reason)}.",
    )


def _by_binding(side: Side, done: Mapping[str, CallState]) -> Finish | None:
    """Fail beats stop, whichever was called first."""
    if found := _bound(side.session_fail, done):
        message, attachments = found
        return Finish(result=message, status="FAILED", reason="failed_binding", attachments=attachments, error=message)
    if found := _bound(side.session_stop, done):
        message, attachments = found
        return Finish(result=message, status="SUCCESS", reason="goal", attachments=attachments)
    return None


def _bound(binding: Binding | None, done: Mapping[str, CallState]) -> tuple[str, tuple[str, ...]] | None:
    call = done.get(binding.name) if binding else None
    return payload(binding, call.call.arguments) if binding and call else None


def _by_completion(state: State, done: Mapping[str, CallState]) -> Finish | None:
    call = done.get(COMPLETE) or done.get(ALIAS)
    return finish_from(state.pin.definition, call.call.arguments) if call else None


def _by_handoff(done: Mapping[str, CallState]) -> HandOver | None:
    for call in done.values():
        agent = call.outcome.metadata.get("handoff") if call.outcome else None
        if isinstance(agent, str):
            return HandOver(agent=agent, call=call.call.id)
    return None


def _by_stop_tool(state: State, side: Side, name: SideName, done: Mapping[str, CallState]) -> Stop | None:
    call = done.get(side.stop_tool) if side.stop_tool else None
    if call is None or call.outcome is None:
        return None
    text = _property(call, side.stop_tool_response_property)
    if state.dual:
        return EndTurn(side=name, why="stop_tool", text=text)
    return Finish(result=text, status="SUCCESS", reason="goal")


def _by_response(state: State, run: RunState, side: Side, answer: ModelAnswered) -> Stop | None:
    if state.calls and run.grace is None:
        return None
    text = text_of(answer.parts)
    if state.dual:
        return EndTurn(side=answer.side, why="response") if side.stop_on_response else None
    if answer.finish in ("refusal", "filtered"):
        return Finish(result=text, status="FAILED", reason="error", error="The model refused to answer.")
    if _goes_on(state, run):
        return None
    match run.started.completion:
        case "explicit":
            return recover(state, "no_completion")
        case "binding":
            return Finish(result=text, status="PARTIAL", reason="no_completion") if side.stop_on_response else None
        case "response":
            if not side.stop_on_response and run.started.mode == "agentic" and run.grace is None:
                return None
            return _response(state, run, answer, text)


def _goes_on(state: State, run: RunState) -> bool:
    """A fork was made at a reply and something said to it: the reply is the source's last word, not the fork's."""
    inherited = state.answer_seq <= state.inherited and bool(state.unanswered)
    return inherited and run.grace is None and run.steps < run.started.max_steps


def _response(state: State, run: RunState, answer: ModelAnswered, text: str) -> Stop:
    if not text.strip():
        return recover(state, "no_completion") if run.started.mode != "single_shot" else give_up(state, "no_completion")
    cut = answer.finish == "length"
    return Finish(
        result=text,
        status="PARTIAL" if cut or run.grace else "SUCCESS",
        reason="goal",
        error="The answer was cut at the model's limit of output." if cut else None,
    )


def plain(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def payload(binding: Binding, arguments: str) -> tuple[str, tuple[str, ...]]:
    """The message and the attachment paths that a binding takes out of a call's arguments."""
    values = msgspec.json.decode(arguments or "{}", type=dict[str, object])
    message: object = arguments if binding.message_property is None else values.get(binding.message_property, "")
    found: object = values.get(binding.attachments_property, ()) if binding.attachments_property else ()
    paths = _paths(found)
    return plain(message), paths


def _paths(found: object) -> tuple[str, ...]:
    """One path or several; a tool of somebody else's may put anything there."""
    try:
        several = msgspec.convert([found] if isinstance(found, str) else found or [], list[object])
    except msgspec.ValidationError:
        return ()
    return tuple(path for path in several if isinstance(path, str))


def _property(call: CallState, name: str | None) -> str:
    """A stop tool's outcome, or the property of it (or of its arguments) that the side names."""
    outcome = call.outcome.text if call.outcome else ""
    if name is None:
        return outcome
    for text in (outcome, call.call.arguments):
        try:
            values = msgspec.json.decode(text, type=dict[str, object])
        except (msgspec.DecodeError, msgspec.ValidationError):
            continue
        if name in values:
            return plain(values[name])
    return outcome
