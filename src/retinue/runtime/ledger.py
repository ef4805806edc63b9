"""Budgets at the model: the most that a request can take is set aside before it leaves, and settled after it.

What an owner had set aside when it died is charged by the store, as soon as another
one claims the thread. `retinue.storage.ledger` keeps the sums down the tree.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from retinue.ports.model import Model
from retinue.ports.store import Reserve, Settle
from retinue.runtime.completion import Finish
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.events.threads import ThreadStarted

CAPPED_OUTPUT = 8192
"""Tokens of output that a budget sets aside for an agent which does not say how much it needs."""
_FRAME = 400
"""Tokens that providers add to a request: their own words about tools, and marks between turns."""
_BUYING = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "n", "best_of", "candidateCount"}
    | {"service_tier"}
)


class Most(NamedTuple):
    """An upper bound of what a request takes. No price is known when `cost` is None."""

    tokens: int
    cost: int | None

    def reserve(self, request: str) -> Reserve:
        return Reserve(request=request, cost=self.cost or 0, tokens=self.tokens)

    def settle_failed(self, request: str, error: Exception, *, began: bool) -> Settle:
        """All is charged, as after a crash, because nobody tells: only a refusal before the answer began is free."""
        if isinstance(error, ModelError) and error.status is not None and not began:
            return Settle(request=request, cost=0, tokens=0)
        return Settle(request=request, cost=self.cost, tokens=self.tokens)


def most(model: Model, *, sent: int, answer: int) -> Most:
    """Of a request of `sent` tokens or bytes, whose answer may have `answer` tokens.

    Bytes are a bound because no tokenizer makes a token of less than one. Writing
    all of it to the provider's cache may be dearer than just sending it.
    """
    plain = Usage(input=sent + _FRAME, output=answer)
    cached = Usage(input=plain.input, cache_write=plain.input, output=answer)
    costs = [cost for usage in (plain, cached) if (cost := model.price(usage)) is not None]
    return Most(plain.total, max(costs, default=None))


def within(options: Mapping[str, object]) -> dict[str, object]:
    """A definition's `options` without those that buy a longer answer, or more than one, than was set aside."""
    kept = {name: value for name, value in options.items() if name not in _BUYING}
    gemini = options.get("generationConfig")
    if isinstance(gemini, Mapping):
        kept["generationConfig"] = within(msgspec.convert(gemini, dict[str, object]))
    return kept


def cost_capped(thread: ThreadStarted) -> bool:
    """Whether somebody from the root to here has a budget in money, so that every price must be known."""
    return thread.cost_capped or thread.budget.cost is not None


def unpriced(model: str) -> Finish:
    error = f"No price is known for {model}, so a cost budget can't be kept. Use a token budget."
    return Finish(result="", status="FAILED", reason="budget", error=error)
