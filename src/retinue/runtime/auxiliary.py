"""Requests of the hidden agents (compaction, title, summary), on the account of the thread they serve."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from retinue.ports.model import Head, Request
from retinue.ports.store import Settle
from retinue.schema.completion import Usage
from retinue.schema.errors import RetinueError
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
    """One request to a hidden agent; None when it can't be had, which is never fatal."""
    try:
        pin = work.runtime.agents.pin(f"builtin:{agent}")
        model = work.runtime.models.resolve(pin.definition, inherited=inherited)[0].model
        turn = model.encode_turn(Turn(role="user", parts=(Text(text=text),)))
        head = model.encode_head(Head(system=pin.definition.prompt, max_tokens=pin.definition.max_tokens))
        async with work.abortable(seconds):
            answer = await model.ask(Request(head=head, turns=[turn], stream=False))
    except (RetinueError, TimeoutError):
        return None
    cost = model.price(answer.usage)
    id = f"{work.thread}:{agent}:{work.state.head}"
    work.ledger(Settle(request=id, cost=cost, tokens=answer.usage.total))
    return Said(text_of(answer.parts).strip(), model.name, answer.usage, cost)
