"""What a new owner does first: close what a crash left open, without repeating an effect silently."""

from retinue.ports.store import Settle
from retinue.runtime.work import Work
from retinue.schema.events.people import QuestionSettled
from retinue.schema.events.runs import RunResumed
from retinue.schema.events.steps import CallSettled, ModelFailed
from retinue.schema.message import Outcome

INTERRUPTED = (
    "The process ended while this ran. It may or may not have had its effect, and it was not run again. "
    "Check the state of things before you decide."
)


def recover(work: Work) -> None:
    """Stage the events that make the log whole again; a thread that was parked needs none."""
    state = work.state
    if state.asked is not None:
        asked = state.asked
        if asked.reserved_tokens and asked.reserved_cost is None:
            # The tokens were charged when the thread was claimed; that their price is unknown only we can say.
            work.ledger(Settle(request=f"{work.thread}:{state.asked_seq}:unpriced", cost=None, tokens=0))
        error = "The process ended while the model was asked."
        work.record(ModelFailed(at=work.now, error=error, code="aborted"))
    for call in state.open_calls:
        if call.started:
            if call.question is not None and call.reply is None:
                work.record(QuestionSettled(at=work.now, id=call.question.id, call=call.call.id, status="withdrawn"))
            outcome = Outcome(call=call.call.id, tool=call.call.tool, status="interrupted", text=INTERRUPTED)
            work.record(CallSettled(at=work.now, outcome=outcome))
    if state.status == "waiting" and state.waiting is not None and state.run is not None:
        counts = state.waiting.waiting_for in ("child", "retry", "slot")
        passed = max(work.now - state.waiting.at, 0.0) if counts else 0.0
        work.record(RunResumed(at=work.now, spent=state.waiting.spent + passed, after=state.waiting.waiting_for))
