"""Money of a tree of threads: reservations, and sums on every account up to the root.

Runs inside the writer's transaction. A line of the ledger is part of its
thread's row, so an account costs no row of its own.
"""

from collections.abc import Sequence

from retinue.ports.store import Reserve, Settle
from retinue.schema.errors import BudgetExceeded
from retinue.storage.writer import Transaction

_RESERVE = "INSERT INTO reservations VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING RETURNING 1"

_SETTLE = "UPDATE reservations SET settled = 1 WHERE thread = ? AND request = ? AND NOT settled RETURNING cost, tokens"

_SETTLE_UNRESERVED = "INSERT INTO reservations VALUES (?, ?, 0, 0, 1) ON CONFLICT DO NOTHING RETURNING 0, 0"

_BOOK = """
    UPDATE threads SET
        spent_cost = spent_cost + ?1, spent_tokens = spent_tokens + ?2,
        reserved_cost = reserved_cost + ?3, reserved_tokens = reserved_tokens + ?4, unpriced = unpriced + ?5
    WHERE key = ?6 AND (
        NOT ?7
        OR (ifnull(spent_cost + reserved_cost + ?1 + ?3 <= cap_cost, 1)
            AND ifnull(spent_tokens + reserved_tokens + ?2 + ?4 <= cap_tokens, 1)))
    RETURNING parent_key
"""

_WHY = """
    SELECT id, cap_cost, cap_tokens, spent_cost + reserved_cost, spent_tokens + reserved_tokens
    FROM threads WHERE key = ?
"""

_PRUNE = "DELETE FROM reservations WHERE thread = ? AND settled"


def book(transaction: Transaction, thread: int, entries: Sequence[Reserve | Settle]) -> None:
    """Apply `entries` to the thread's account and all above it.

    Raises:
        BudgetExceeded: one of the accounts would pass its cap.
    """
    execute = transaction.execute
    cost = tokens = held_cost = held_tokens = unpriced = 0
    reserves = False
    for entry in entries:
        if isinstance(entry, Reserve):
            if execute(_RESERVE, (thread, entry.request, entry.cost, entry.tokens)).fetchone():
                held_cost += entry.cost
                held_tokens += entry.tokens
                reserves = True
            continue
        key = (thread, entry.request)
        held = execute(_SETTLE, key).fetchone() or execute(_SETTLE_UNRESERVED, key).fetchone()
        if held is None:
            continue
        cost += entry.cost or 0
        unpriced += entry.cost is None
        tokens += entry.tokens
        held_cost -= held[0]
        held_tokens -= held[1]
    account: int | None = thread
    while account is not None:
        amounts = (cost, tokens, held_cost, held_tokens, unpriced, account, reserves)
        found = execute(_BOOK, amounts).fetchone()
        if found is None:
            raise _exceeded(transaction, account, cost + held_cost, tokens + held_tokens)
        account = found[0]


def prune(transaction: Transaction, thread: int) -> None:
    """Forget what was settled: a run has ended, and nothing settles its requests again."""
    transaction.execute(_PRUNE, (thread,))


def _exceeded(transaction: Transaction, account: int, cost: int, tokens: int) -> BudgetExceeded:
    id, cap_cost, cap_tokens, used_cost, used_tokens = transaction.execute(_WHY, (account,)).fetchone()
    if cap_cost is not None and used_cost + cost > cap_cost:
        return BudgetExceeded(
            f"thread {id} may cost {_dollars(cap_cost)}; {_dollars(max(cap_cost - used_cost, 0))} are left "
            f"and the next request needs up to {_dollars(cost)}",
            hint="raise the budget, or use a cheaper model",
        )
    return BudgetExceeded(
        f"thread {id} may use {cap_tokens} tokens; {max(cap_tokens - used_tokens, 0)} are left "
        f"and the next request needs up to {tokens}",
        hint="raise the budget",
    )


def _dollars(nano: int) -> str:
    return f"${nano / 1e9:.9f}".rstrip("0").rstrip(".")
