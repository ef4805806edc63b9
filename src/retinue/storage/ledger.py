"""Money of a tree of threads: reservations, and sums on every account up to the root.

Runs inside the writer's transaction, and reads all it needs before it writes
anything. A line of the ledger is part of its thread's row; the caller writes
the thread's own line together with the rest of that row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retinue.ports.store import Reserve, Settle
from retinue.schema.errors import BudgetExceeded
from retinue.storage.writer import Transaction

LINE = "cap_cost, cap_tokens, spent_cost, spent_tokens, reserved_cost, reserved_tokens, unpriced"

SET_SUMS = "spent_cost = ?, spent_tokens = ?, reserved_cost = ?, reserved_tokens = ?, unpriced = ?"

_ACCOUNT = f"SELECT id, parent_key, {LINE} FROM threads WHERE key = ?"

_WRITE_ACCOUNT = f"UPDATE threads SET {SET_SUMS} WHERE key = ?"

_RESERVATION = "SELECT cost, tokens, settled FROM reservations WHERE thread = ? AND request = ?"

_HELD = "SELECT request, cost, tokens FROM reservations WHERE thread = ? AND NOT settled"

_WRITE_RESERVATION = "INSERT OR REPLACE INTO reservations VALUES (?, ?, ?, ?, ?)"

_PRUNE = "DELETE FROM reservations WHERE thread = ? AND settled"


class Account(NamedTuple):
    """A thread's line, in the order of `LINE`."""

    id: str
    parent_key: int | None
    cap_cost: int | None
    cap_tokens: int | None
    spent_cost: int
    spent_tokens: int
    reserved_cost: int
    reserved_tokens: int
    unpriced: int


class Sums(NamedTuple):
    """What changes in a line, in the order of `SET_SUMS`."""

    spent_cost: int
    spent_tokens: int
    reserved_cost: int
    reserved_tokens: int
    unpriced: int


def book(transaction: Transaction, key: int, account: Account, entries: Sequence[Reserve | Settle]) -> Sums:
    """Apply `entries` to the reservations and to every account above; returns the new sums of `account` itself.

    Raises:
        BudgetExceeded: one of the accounts would pass its cap; nothing is written.
    """
    execute = transaction.execute
    if len(entries) == 1 and not entries[0].request and account.parent_key is None:
        return _spend(account, entries[0])
    change = _read(transaction, key, entries)
    after = change.fit(account)
    above: list[tuple[int, Sums]] = []
    parent = account.parent_key
    while parent is not None:
        ancestor = Account._make(execute(_ACCOUNT, (parent,)).fetchone())
        above.append((parent, change.fit(ancestor)))
        parent = ancestor.parent_key
    for request, (cost, tokens, settled) in change.reservations.items():
        execute(_WRITE_RESERVATION, (key, request, cost, tokens, settled))
    for ancestor_key, sums in above:
        execute(_WRITE_ACCOUNT, (*sums, ancestor_key))
    return after


def charge(transaction: Transaction, key: int) -> None:
    """All that a thread has reserved is spent: who asked is gone, and nobody can say what the requests took."""
    held = transaction.execute(_HELD, (key,)).fetchall()
    if held:
        account = Account._make(transaction.execute(_ACCOUNT, (key,)).fetchone())
        entries = [Settle(request=request, cost=cost, tokens=tokens) for request, cost, tokens in held]
        transaction.execute(_WRITE_ACCOUNT, (*book(transaction, key, account, entries), key))


def prune(transaction: Transaction, key: int) -> None:
    """Forget what was settled: a run has ended, and nothing settles its requests again."""
    transaction.execute(_PRUNE, (key,))


def _spend(account: Account, entry: Reserve | Settle) -> Sums:
    """What most requests are: without a cap, a reservation or anybody above."""
    return Sums(
        account.spent_cost + (entry.cost or 0),
        account.spent_tokens + entry.tokens,
        account.reserved_cost,
        account.reserved_tokens,
        account.unpriced + (entry.cost is None),
    )


@dataclass(slots=True)
class _Change:
    spent_cost: int = 0
    spent_tokens: int = 0
    released_cost: int = 0
    released_tokens: int = 0
    unpriced: int = 0
    asked_cost: int = 0
    asked_tokens: int = 0
    asks: bool = False
    reservations: dict[str, tuple[int, int, bool]] = field(default_factory=dict[str, tuple[int, int, bool]])
    """Those that must be written: cost, tokens and whether it is settled."""

    def fit(self, account: Account) -> Sums:
        spent_cost = account.spent_cost + self.spent_cost
        spent_tokens = account.spent_tokens + self.spent_tokens
        reserved_cost = account.reserved_cost - self.released_cost
        reserved_tokens = account.reserved_tokens - self.released_tokens
        if self.asks:
            cost_left = None if account.cap_cost is None else account.cap_cost - spent_cost - reserved_cost
            tokens_left = None if account.cap_tokens is None else account.cap_tokens - spent_tokens - reserved_tokens
            if cost_left is not None and self.asked_cost > cost_left:
                wanted = _dollars(self.asked_cost)
                later = self.asked_cost <= cost_left + reserved_cost
                raise _exceeded(account.id, _dollars(account.cap_cost), _dollars(cost_left), wanted, later=later)
            if tokens_left is not None and self.asked_tokens > tokens_left:
                wanted = str(self.asked_tokens)
                later = self.asked_tokens <= tokens_left + reserved_tokens
                raise _exceeded(account.id, f"{account.cap_tokens} tokens", str(tokens_left), wanted, later=later)
        return Sums(
            spent_cost,
            spent_tokens,
            reserved_cost + self.asked_cost,
            reserved_tokens + self.asked_tokens,
            account.unpriced + self.unpriced,
        )


def _read(transaction: Transaction, key: int, entries: Sequence[Reserve | Settle]) -> _Change:
    change = _Change()
    for entry in entries:
        request = entry.request
        held = change.reservations.get(request)
        if held is None and request:
            held = transaction.execute(_RESERVATION, (key, request)).fetchone()
        if isinstance(entry, Reserve):
            if held is None:
                change.reservations[request] = (entry.cost, entry.tokens, False)
                change.asked_cost += entry.cost
                change.asked_tokens += entry.tokens
                change.asks = True
            continue
        cost, tokens, settled = held or (0, 0, False)
        if settled:
            continue
        if request:
            change.reservations[request] = (cost, tokens, True)
        change.released_cost += cost
        change.released_tokens += tokens
        change.spent_cost += entry.cost or 0
        change.spent_tokens += entry.tokens
        change.unpriced += entry.cost is None
    return change


def _exceeded(thread: str, cap: str, left: str, asked: str, *, later: bool) -> BudgetExceeded:
    return BudgetExceeded(
        f"the budget of thread {thread} is {cap}: {left} left, and the next request may take {asked}",
        hint="raise the budget, lower max_tokens, or use a cheaper model",
        later=later,
    )


def _dollars(nano: int | None) -> str:
    return f"${(nano or 0) / 1e9:.9f}".rstrip("0").rstrip(".")
