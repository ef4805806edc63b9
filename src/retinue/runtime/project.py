"""Folds the events of a thread into its state. Pure: the same log gives the same state anywhere."""

from collections.abc import Iterable
from typing import assert_never, get_args

from retinue.runtime.state import Attempts, CallState, ChildState, RunState, State, add_cost
from retinue.schema.completion import CallSummary, Reason, Usage
from retinue.schema.events.children import (
    ChildMessaged,
    ChildReported,
    ChildStarted,
    FileAttached,
    VariablesProvided,
    VariablesRequested,
)
from retinue.schema.events.people import QuestionAsked, QuestionSettled, TaintMarked
from retinue.schema.events.runs import (
    GraceStarted,
    MessageReceived,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunStarted,
    RunWaiting,
    TurnEnded,
)
from retinue.schema.events.steps import (
    AuxiliaryUsed,
    CallSettled,
    CallStarted,
    ContextCompacted,
    HistoryChanged,
    HookFailed,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
)
from retinue.schema.events.threads import (
    SegmentStarted,
    ThreadForked,
    ThreadStarted,
    ThreadSummarized,
    ThreadTerminated,
    ThreadTitled,
)
from retinue.schema.events.union import AnyEvent, ChildEvent, PeopleEvent, RunEvent, StepEvent, ThreadEvent
from retinue.schema.ids import Seq
from retinue.schema.message import calls_of, text_of

REASONS: dict[str, Reason] = {r: r for r in get_args(Reason)}


def project(events: Iterable[tuple[Seq, AnyEvent]]) -> State:
    """The state after `events`, which begin with `thread.started`."""
    iterator = iter(events)
    seq, first = next(iterator)
    if not isinstance(first, ThreadStarted):
        raise ValueError(f"a log begins with thread.started, not {type(first).__name__}")
    state = State(thread=first, pin=first.pin, head=seq, title=first.title)
    for seq, event in iterator:
        apply(state, seq, event)
    return state


def apply(state: State, seq: Seq, event: AnyEvent) -> None:
    """Take one event in. The families are split so that each fits on a screen."""
    state.head = seq
    if isinstance(event, StepEvent):
        _apply_step(state, seq, event)
    elif isinstance(event, RunEvent):
        _apply_run(state, seq, event)
    elif isinstance(event, ChildEvent):
        _apply_child(state, event)
    elif isinstance(event, PeopleEvent):
        _apply_people(state, event)
    else:
        _apply_thread(state, seq, event)


def _apply_thread(state: State, seq: Seq, event: ThreadEvent) -> None:
    match event:
        case ThreadStarted():
            state.thread, state.pin = event, event.pin
        case ThreadTitled():
            state.title = event.title
        case ThreadSummarized():
            state.summary = event.summary
        case SegmentStarted():
            state.segment, state.pin, state.segment_seq = event, event.pin, seq
            state.handed_over = tuple(state.called)
        case ThreadForked():
            _forget_spending(state, seq)
            state.children.clear()  # they answer the thread that was forked
            state.variables.clear()
        case ThreadTerminated():
            state.status = "terminated"
        case _:
            assert_never(event)


def _apply_run(state: State, seq: Seq, event: RunEvent) -> None:
    run = state.run
    match event:
        case MessageReceived():
            state.unanswered.append(event)
            state.last_message = event.id
            if not state.running and len(state.unanswered) == 1:
                state.first = event
        case RunStarted():
            state.run = _run_state(state, seq, event)
            state.runs = event.run
            state.status, state.waiting = "running", None
            state.attempts, state.answer, state.calls = Attempts(), None, {}
            state.unanswered.clear()
        case RunInterrupted():
            state.status = "interrupted"
        case RunResumed():
            state.status, state.waiting = "running", None
            if run:
                run.spent = event.spent
        case RunWaiting():
            state.status, state.waiting = "waiting", event
            if run:
                run.spent = event.spent
        case RunCompleted() | RunFailed():
            _end_run(state, event)
        case TurnEnded():
            if run:
                run.session_turns += 1
                run.side_steps[event.side] = 0
                run.active = "b" if event.side == "a" else "a"
            state.answer, state.calls = None, {}
        case GraceStarted():
            if run:
                run.grace, run.grace_from, run.spent = REASONS[event.recovering_from], event.spent, event.spent
            state.answer, state.calls, state.attempts = None, {}, Attempts()
        case _:
            assert_never(event)


def _run_state(state: State, seq: Seq, event: RunStarted) -> RunState:
    """A new run; after a handoff the same one goes on under other limits, with what it has used so far."""
    before, fresh = state.run, RunState(started=event, seq=seq, at=event.at)
    if state.dual and state.first is not None and state.first.side == "a":
        fresh.active = "b"  # side A has spoken
    if before is not None and before.completion is None and event.run == state.runs:
        fresh.usage, fresh.cost, fresh.calls, fresh.spent = before.usage, before.cost, before.calls, before.spent
        fresh.last_text = before.last_text
    return fresh


def _end_run(state: State, event: RunCompleted | RunFailed) -> None:
    if state.run:
        state.run.completion = event.completion
    state.status = "failed" if event.completion.status == "FAILED" else "completed"
    state.waiting, state.asked, state.answer, state.calls = None, None, None, {}
    state.questions.clear()
    if event.completion.reason in ("aborted", "terminated"):
        state.unanswered.clear()  # who ends a run also means what was said to it before
    if state.unanswered:
        state.first = state.unanswered[0]


def _apply_step(state: State, seq: Seq, event: StepEvent) -> None:
    match event:
        case ModelAsked():
            state.asked, state.asked_seq = event, seq
            state.status, state.waiting, state.answer = "running", None, None
            state.attempts.retry_at = None
            state.unanswered.clear()
        case ModelAnswered():
            _take_answer(state, seq, event)
        case ModelFailed():
            state.asked = None
            _take_failure(state, event)
        case CallStarted():
            state.calls[event.call].started = True
            state.status = "running"
        case CallSettled():
            _take_outcome(state, event)
        case ContextCompacted() | AuxiliaryUsed():
            _charge(state, event)
            if isinstance(event, ContextCompacted):
                state.compacted[event.side] = event
                state.attempts.compacted = True
                state.context_tokens[event.side] = 0
        case HistoryChanged() | HookFailed():
            pass
        case _:
            assert_never(event)


def _take_answer(state: State, seq: Seq, event: ModelAnswered) -> None:
    state.asked, state.answer, state.answer_seq = None, event, seq
    state.attempts = Attempts()
    calls = calls_of(event.parts)
    state.calls = {call.id: CallState(call) for call in calls}
    for call in calls:
        state.called.setdefault(call.tool)
        signature = f"{call.tool} {call.arguments}"
        last, times = state.repeated
        state.repeated = (signature, times + 1 if signature == last else 1)
    state.steps += 1
    state.context_tokens[event.side] = event.usage.total
    if state.run:
        state.run.steps += 1
        state.run.side_steps[event.side] += 1
        state.run.spent = event.spent
        state.run.last_text = text_of(event.parts) or state.run.last_text
    _charge(state, event)


def _take_failure(state: State, event: ModelFailed) -> None:
    attempts = state.attempts
    if event.code == "aborted":
        return
    if event.code == "context_overflow" and not attempts.overflowed:
        attempts.overflowed = True
        return
    if event.retry_in is None:
        attempts.candidate, attempts.tried = attempts.candidate + 1, 0
        attempts.exhausted = event.error
    else:
        attempts.tried += 1
        attempts.retry_at = event.at + event.retry_in


def _take_outcome(state: State, event: CallSettled) -> None:
    call = state.calls[event.outcome.call]
    call.outcome = event.outcome
    if call.question:
        state.questions.pop(call.question.id, None)
    if state.run:
        state.run.calls.append(
            CallSummary(tool=event.outcome.tool, status=event.outcome.status, duration=event.duration)
        )


def _charge(state: State, event: ModelAnswered | ContextCompacted | AuxiliaryUsed | ChildReported) -> None:
    state.usage += event.usage
    state.cost = add_cost(state.cost, event.cost)
    if state.run and state.run.completion is None:
        state.run.usage += event.usage
        state.run.cost = add_cost(state.run.cost, event.cost)


def _apply_people(state: State, event: PeopleEvent) -> None:
    match event:
        case QuestionAsked():
            state.questions[event.id] = event
            if call := state.calls.get(event.call):
                call.question, call.reply = event, None
        case QuestionSettled():
            state.questions.pop(event.id, None)
            if call := state.calls.get(event.call):
                call.reply = event
        case TaintMarked():
            state.taints.add(event.label)
        case _:
            assert_never(event)


def _apply_child(state: State, event: ChildEvent) -> None:
    match event:
        case ChildStarted():
            status = "queued" if event.queued else "running"
            state.children[event.reference] = ChildState(started=event, at=event.at, status=status)
            if call := state.calls.get(event.call):
                call.child = event.reference if event.blocking else None
                call.variables = None
        case ChildMessaged():
            if child := state.children.get(event.reference):
                child.status, child.words, child.done = "running", "", False
            if event.blocking and (call := state.calls.get(event.call)):
                call.child = event.reference
        case ChildReported():
            _take_report(state, event)
        case VariablesRequested():
            state.variables[event.request] = event
            if not event.answered and (call := state.calls.get(event.call)):
                call.variables = event
        case VariablesProvided():
            state.held[event.request] = {**state.held.get(event.request, {}), **event.values}
            if event.complete:
                state.variables.pop(event.request, None)
                state.held.pop(event.request, None)
        case FileAttached():
            state.files[event.path] = event
        case _:
            assert_never(event)


def _take_report(state: State, event: ChildReported) -> None:
    child = state.children.get(event.reference)
    if child is None:
        return
    if event.words:
        child.words = event.status
        return
    child.status = event.status
    if event.result is None:
        return
    child.done = True
    _charge(state, event)


def _forget_spending(state: State, seq: Seq) -> None:
    """A fork opens its own account: what was copied was paid for by the thread it came from."""
    state.inherited = seq
    state.usage, state.cost = Usage(), 0
    if state.run:
        state.run.usage, state.run.cost = Usage(), 0
