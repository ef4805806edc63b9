"""The loop: drain the queue, decide, act, persist, until there is nothing to do but wait."""

import logging
from collections.abc import Callable
from typing import assert_never

from retinue.ports.store import Claim, Park
from retinue.runtime.calls import settle_calls
from retinue.runtime.completion import Finish, failed
from retinue.runtime.deps import Runtime
from retinue.runtime.ending import complete
from retinue.runtime.flight import Aborted
from retinue.runtime.handoff import hand_over
from retinue.runtime.inbox import drain
from retinue.runtime.moves import Ask, Rest, SettleCalls, StartRun, Wait, next_move, wait_for
from retinue.runtime.recovery import recover
from retinue.runtime.start import start_run
from retinue.runtime.step import ask
from retinue.runtime.stops import EndTurn, Grace, HandOver
from retinue.runtime.titles import before_rest
from retinue.runtime.work import Work, load_work
from retinue.schema.errors import Fenced, SettingsError, StoreUnavailable
from retinue.schema.events.runs import GraceStarted, RunWaiting, TurnEnded

log = logging.getLogger("retinue.runtime")


async def run_thread(runtime: Runtime, claim: Claim, attach: Callable[[Work], None]) -> None:
    """Drive a claimed thread until it parks. `attach` lets others abort what is in flight.

    Raises:
        StoreUnavailable: what happened could not be written; the log says where to go on.
    """
    work = await load_work(runtime, claim)
    attach(work)
    parked = False
    try:
        recover(work)
        while not parked:
            try:
                parked = await _move(work)
            except Aborted:
                continue  # a request of a hidden agent was cut; the inbox says why
            except SettingsError as error:  # a server that the run needs is not configured any more
                if not work.state.running:
                    raise
                complete(work, failed(error))
    except Fenced as fenced:
        log.info("%s", fenced.message)
        await runtime.store.release(claim, runnable_at=work.now)  # nothing happens when another has claimed it
    except StoreUnavailable:
        raise
    except Exception:
        if not work.state.running:
            raise  # there is no run to end: whoever called tries again, in a while
        log.exception("thread %s failed", claim.thread)
        await _fail(work, claim)
    finally:
        work.flight.close()
        runtime.contexts.drop(claim.thread)  # who drives it next reads the log anyway: what rests takes no memory


async def _move(work: Work) -> bool:
    """One move; True when the thread is parked."""
    await drain(work)
    move = next_move(work.state, now=work.now, spent=work.spent(), grace=work.runtime.tuning.grace)
    match move:
        case Rest():
            return await _park(work, None)
        case Wait():
            return await _park(work, move)
        case StartRun():
            _finish(work, await start_run(work))
        case Ask():
            refused = await ask(work)
            if isinstance(refused, Wait):
                return await _park(work, refused)
            _finish(work, refused)
        case SettleCalls():
            progressed = await settle_calls(work)
            if work.looping:
                complete(work, _looping(work))
            elif not progressed:
                return await _park(work, wait_for(work.state, now=work.now, spent=work.spent()))
        case Finish():
            complete(work, move)
        case EndTurn():
            work.record(TurnEnded(at=work.now, side=move.side, why=move.why, text=move.text))
        case Grace():
            work.record(
                GraceStarted(
                    at=work.now, recovering_from=move.recovering_from, text=move.text, spent=round(work.spent(), 3)
                )
            )
        case HandOver():
            _finish(work, await hand_over(work, move))
        case _:
            assert_never(move)
    return False


def _finish(work: Work, finish: Finish | None) -> None:
    if finish is not None:
        complete(work, finish)


def _looping(work: Work) -> Finish:
    call, times = work.state.repeated
    error = f"The same call was made {times} times in a row and nobody can be asked: {call[:200]}"
    return Finish(result="", status="FAILED", reason="loop", error=error)


async def _park(work: Work, wait: Wait | None) -> bool:
    """Give the thread up, unless something was said to it meanwhile."""
    if wait is None:
        await before_rest(work)
    elif work.state.status != "waiting":
        work.record(
            RunWaiting(at=work.now, waiting_for=wait.waiting_for, spent=round(work.spent(), 3), until=wait.until)
        )
    committed = await work.flush(Park(inbox_head=work.drained, until=wait.until if wait else None))
    return committed is not None and committed.parked


async def _fail(work: Work, claim: Claim) -> None:
    """A bug must not lose the thread: it ends the run with a general sentence, and our log has the rest."""
    error = "An internal error ended the run. The details are in the log."
    complete(work, Finish(result="", status="FAILED", reason="error", error=error))
    await work.flush()
    await work.runtime.store.release(claim, runnable_at=None)  # at once, when something waits in its inbox
