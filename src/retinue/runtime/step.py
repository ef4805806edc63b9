"""Asks the model: one request, reserved before it leaves, recorded when it came back.

Failures are classified here and decided by the fold: try again, the next
candidate, compact and try once more, or give up.
"""

from retinue.ports.model import Answer, Candidate, Request
from retinue.ports.store import Settle
from retinue.runtime import compaction, ledger
from retinue.runtime.completion import Finish
from retinue.runtime.context import Context
from retinue.runtime.flight import Aborted
from retinue.runtime.history import filter_history
from retinue.runtime.moves import Wait
from retinue.runtime.offer import head_for, most_output
from retinue.runtime.project import project
from retinue.runtime.sides import candidates, side_definition
from retinue.runtime.tail import tail_for
from retinue.runtime.work import Work, read_log
from retinue.schema.completion import Usage
from retinue.schema.errors import BudgetExceeded, ModelError
from retinue.schema.events.steps import ModelAnswered, ModelAsked, ModelFailed
from retinue.schema.ids import call_id
from retinue.schema.message import Call, Part
from retinue.schema.thread import SideName


async def ask(work: Work) -> Finish | Wait | None:
    """One step's request. Returns a finish when asking is no longer possible, a wait when it is not possible yet."""
    run = work.state.run
    assert run is not None
    side = run.active
    choice = _candidate(work, side)
    if isinstance(choice, Finish):
        return choice
    head = await head_for(work, side)
    if side_definition(work, side).hooks:
        await filter_history(work, side)
    context = work.runtime.contexts.get(work.thread, side, choice.model) or await work.context(side, choice.model)
    request = context.request(head, tail=tail_for(work), message_id=work.state.last_message)
    if compaction.due(work, context, request, choice.model):
        await compaction.compact(work, side, choice.model, context, request)
        context = await work.context(side, choice.model)
        request = context.request(head, tail=tail_for(work), message_id=work.state.last_message)
    if refused := await _announce(work, side, choice, context, request):
        return refused
    del context  # while the provider thinks, the cache alone decides what stays in memory
    await _exchange(work, side, choice, request)
    return None


def _candidate(work: Work, side: SideName) -> Candidate | Finish:
    found, attempts = candidates(work, side), work.state.attempts
    if attempts.candidate < len(found):
        return found[attempts.candidate]
    error = attempts.exhausted or "No model could be asked."
    return Finish(result="", status="FAILED", reason="error", error=error)


async def _announce(
    work: Work, side: SideName, choice: Candidate, context: Context, request: Request
) -> Finish | Wait | None:
    """Write `model.asked` with its reservation, which the budget may not allow, or not yet."""
    run, state = work.state.run, work.state
    assert run is not None
    model, held = choice.model, None
    if state.thread.capped:
        held = ledger.most(model, sent=context.bound(request), answer=most_output(work) or model.max_output)
        if held.cost is None and ledger.cost_capped(state.thread):
            return ledger.unpriced(model.name)
        await work.flush()
    asked = ModelAsked(
        at=work.now,
        step=run.steps + 1,
        side=side,
        model=model.name,
        format=model.format,
        attempt=state.attempts.tried + 1,
        chain=context.chain(request),
        reserved_cost=held.cost if held else None,
        reserved_tokens=held.tokens if held else 0,
        note=choice.note,
    )
    work.record(asked)
    if held is not None:
        work.ledger(held.reserve(_request_id(work)))
    try:
        await work.flush()
    except BudgetExceeded as refused:
        work.withdraw(project(await read_log(work.runtime, work.thread)))
        if refused.later:
            again = work.runtime.tuning.retry_from * (1 + work.runtime.clock.random())
            return Wait(waiting_for="retry", until=work.now + again)
        return Finish(result=work.state.run.last_text if work.state.run else "", status="FAILED", reason="budget",
                      error=refused.message)  # fmt: skip
    return None


def _request_id(work: Work) -> str:
    return f"{work.thread}:{work.state.asked_seq}"


async def _exchange(work: Work, side: SideName, choice: Candidate, request: Request) -> None:
    live, run = work.runtime.live, work.state.run
    assert run is not None
    left = run.started.timeout - work.spent()
    if run.grace is not None:
        left = work.runtime.tuning.grace
    live.begin(work.thread, work.state.asked_seq, work.state.attempts.tried + 1)
    started = work.runtime.clock.monotonic()
    try:
        with work.flight.bounded(max(left, 1.0)):
            answer = await choice.model.ask(request, lambda delta: live.add(work.thread, delta.kind, delta.text))
    except (ModelError, TimeoutError, Aborted) as error:
        heard = live.partial(work.thread)
        _failed(work, error, began=heard is not None and bool(heard.pieces))
        return
    finally:
        live.end(work.thread)
    _answered(work, side, choice, answer, work.runtime.clock.monotonic() - started)


def _answered(work: Work, side: SideName, choice: Candidate, answer: Answer, duration: float) -> None:
    asked, usage, cost = work.state.asked, answer.usage, choice.model.price(answer.usage)
    reserved = asked is not None and asked.reserved_tokens
    if asked is not None and reserved and not usage.total:  # a server that counts nothing must not be free
        usage, cost = Usage(input=asked.reserved_tokens), asked.reserved_cost
    work.ledger(Settle(request=_request_id(work) if reserved else "", cost=cost, tokens=usage.total))
    work.record(
        ModelAnswered(
            at=work.now,
            side=side,
            parts=_numbered(work, answer.parts),
            finish=answer.finish,
            usage=usage,
            cost=cost,
            duration=round(duration, 4),
            spent=round(work.spent(), 3),
        )
    )


def _numbered(work: Work, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Calls get our ids: from the place of this answer in the log, so that they survive anything."""
    seq, index = work.state.head + 1, 0
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, Call):
            id = call_id(work.thread, seq, index)
            part = Call(id=id, tool=part.tool, arguments=part.arguments, wire_id=part.wire_id, opaque=part.opaque)
            index += 1
        numbered.append(part)
    return tuple(numbered)


def _failed(work: Work, error: ModelError | TimeoutError | Aborted, *, began: bool) -> None:
    asked = work.state.asked
    if asked is not None and asked.reserved_tokens:
        held = ledger.Most(asked.reserved_tokens, asked.reserved_cost)
        work.ledger(held.settle_failed(_request_id(work), error, began=began))
    match error:
        case ModelError():
            retry = _retry_in(work, error)
            work.record(
                ModelFailed(
                    at=work.now,
                    error=work.runtime.redact(error.message),
                    code=error.code,
                    status=error.status,
                    retry_in=retry,
                )
            )
        case TimeoutError():
            work.record(ModelFailed(at=work.now, error="The run's time was up before an answer came.", code="aborted"))
        case Aborted():
            work.record(ModelFailed(at=work.now, error="Stopped by a person.", code="aborted"))


def _retry_in(work: Work, error: ModelError) -> float | None:
    tuning, tried = work.runtime.tuning, work.state.attempts.tried
    if error.code == "context_overflow" or not error.transient or tried + 1 >= tuning.retries:
        return None
    if error.retry_after is not None:
        return error.retry_after
    backoff = tuning.retry_from * 2**tried
    return backoff * (1 + 0.25 * (2 * work.runtime.clock.random() - 1))
