"""What a thread does next: one pure decision over its state.

Because the decision needs nothing but the state, a thread that was cut anywhere
goes on by folding its log and deciding again.
"""

from dataclasses import dataclass

from retinue.runtime.completion import Finish
from retinue.runtime.state import CallState, State
from retinue.runtime.stops import EndTurn, Grace, HandOver, after_step, give_up, recover, side_of
from retinue.schema.events.children import VariablesRequested
from retinue.schema.thread import WaitingFor

DEFAULT_SESSION_TURNS = 40


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do until somebody says something."""


@dataclass(frozen=True, slots=True)
class StartRun:
    pass


@dataclass(frozen=True, slots=True)
class SettleCalls:
    pass


@dataclass(frozen=True, slots=True)
class Ask:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    waiting_for: WaitingFor
    until: float | None


Move = Rest | StartRun | SettleCalls | Ask | Wait | Finish | EndTurn | Grace | HandOver


def next_move(state: State, *, now: float, spent: float, grace: float) -> Move:
    """The next move; `spent` is the run's active seconds, `grace` the recovery turn's."""
    if state.status == "terminated":
        return Rest()
    if state.status == "interrupted":
        return Rest()
    run = state.run
    if run is None or run.completion is not None:
        return StartRun() if state.unanswered else Rest()
    if open_calls := state.open_calls:
        return _open(state, open_calls, now=now, spent=spent)
    if stop := after_step(state):
        return stop
    if state.attempts.retry_at is not None and state.attempts.retry_at > now:
        return Wait(waiting_for="retry", until=state.attempts.retry_at)
    if stop := _by_limits(state, spent=spent, grace=grace):
        return stop
    if (state.children or state.variables) and _immediate(state, now):
        return wait_for(state, now=now, spent=spent)
    return Ask()


def _immediate(state: State, now: float) -> bool:
    """Whether a child that comes before the first step is not done, or still misses its variables."""
    running = any(c.started.immediate and c.started.blocking and not c.ended for c in state.children.values())
    return running or any(_holds_up(asked, now) for asked in state.variables.values())


def _holds_up(asked: VariablesRequested, now: float) -> bool:
    return asked.immediate and not asked.answered and asked.expires > now


def _open(state: State, open_calls: list[CallState], *, now: float, spent: float) -> Move:
    if not all(c.waits for c in open_calls):
        return SettleCalls()
    expired = any(q.expires is not None and q.expires <= now for q in state.questions.values())
    expired = expired or any(c.variables is not None and c.variables.expires <= now for c in open_calls)
    late = state.run is not None and spent >= state.run.started.timeout and any(c.child for c in open_calls)
    if expired or late:
        return SettleCalls()
    return wait_for(state, now=now, spent=spent)


def wait_for(state: State, *, now: float, spent: float) -> Wait:
    """What the open calls wait for. A child's time counts against the run's, a person's does not."""
    waiting = [c for c in state.open_calls if c.waits]
    held = [asked.expires for asked in state.variables.values() if _holds_up(asked, now)]
    if held and not waiting:
        return Wait(waiting_for="variables", until=min(held))
    if any(c.child is not None for c in waiting) or not waiting:
        left = state.run.started.timeout - spent if state.run else 0.0
        return Wait(waiting_for="child", until=_earliest(state, now + max(left, 0.0)))
    waiting_for: WaitingFor = "variables" if any(c.variables for c in waiting) else "question"
    return Wait(waiting_for=waiting_for, until=_earliest(state, None))


def _earliest(state: State, until: float | None) -> float | None:
    times = [q.expires for q in state.questions.values() if q.expires is not None]
    times += [c.variables.expires for c in state.open_calls if c.variables]
    return min([*times, *([until] if until is not None else [])], default=None)


def _by_limits(state: State, *, spent: float, grace: float) -> Move | None:
    run = state.run
    if run is None:
        return None
    if run.grace is not None:
        return give_up(state, run.grace) if spent - run.grace_from > grace else None
    if spent >= run.started.timeout:
        return recover(state, "timeout")
    if not state.dual:
        return recover(state, "max_steps") if run.steps >= run.started.max_steps else None
    cap = state.pin.definition.max_session_turns or DEFAULT_SESSION_TURNS
    if run.session_turns >= cap:
        return Finish(result=run.last_text, status="PARTIAL", reason="max_session_turns")
    limit = side_of(state, run.active).max_steps or run.started.max_steps
    if run.side_steps[run.active] >= limit:
        return EndTurn(side=run.active, why="max_steps")
    return None
