"""Requests of the hidden agents (compaction, title, summary), on the account of the thread they serve."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from retinue.ports.model import Answer, Head, Model, Request
from retinue.ports.store import Settle
from retinue.runtime import ledger
from retinue.schema.completion import Usage
from retinue.schema.errors import BudgetExceeded, RetinueError
from retinue.schema.message import Text, Turn, text_of

if TYPE_CHECKING:
    from retinue.runtime.work import Work

MAX_TITLE = 60


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    model: str
    usage: Usage
    cost: int | None


async def ask_hidden(work: "Work", agent: str, text: str, *, inherited: str, seconds: float = 60.0) -> Said | None:
    """One request to a hidden agent; None when it can't be had or is not in the budget, which is never fatal.

    Raises:
        Aborted: somebody stopped the thread meanwhile.
    """
    try:
        definition = work.runtime.agents.pin(f"builtin:{agent}").definition
        model = work.runtime.models.resolve(definition, inherited=inherited)[0].model
    except RetinueError:
        return None
    capped = work.state.thread.capped
    room = definition.max_tokens or (ledger.CAPPED_OUTPUT if capped else None)
    turn = model.encode_turn(Turn(role="user", parts=(Text(text=text),)))
    head = model.encode_head(Head(system=definition.prompt, max_tokens=room))
    request, id = Request(head=head, turns=[turn], stream=False), f"{agent}:{work.runtime.clock.new_id()}"
    held = ledger.most(model, sent=len(head.data) + len(turn.data), answer=room or 0) if capped else None
    if held is not None and not await _reserved(work, id, held):
        return None
    answer = await _answer(work, model, request, id, held, seconds)
    if answer is None:
        return None
    cost = model.price(answer.usage)
    work.ledger(Settle(request=id, cost=cost, tokens=answer.usage.total))
    return Said(text_of(answer.parts).strip(), model.name, answer.usage, cost)


async def _reserved(work: "Work", id: str, held: ledger.Most) -> bool:
    if held.cost is None and ledger.cost_capped(work.state.thread):
        return False
    await work.flush()
    work.ledger(held.reserve(id))
    try:
        await work.flush()
    except BudgetExceeded:
        return False
    return True


async def _answer(
    work: "Work", model: Model, request: Request, id: str, held: ledger.Most | None, seconds: float
) -> Answer | None:
    try:
        with work.flight.bounded(seconds):
            return await model.ask(request)
    except Exception as error:
        if held is not None:
            work.ledger(held.settle_failed(id, error, began=False))
        if isinstance(error, RetinueError | TimeoutError):
            return None
        raise
