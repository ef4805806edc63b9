"""What every store must do with money: one ledger for a tree, caps at every level, nothing charged twice."""

import asyncio

import pytest

from retinue.ports.store import Account, Caps, Commit, Listing, NewThread, Reserve, Settle, Store
from retinue.schema.errors import BudgetExceeded
from retinue.schema.ids import Tenant, ThreadId
from retinue.schema.thread import ThreadStatus

ROOT = ThreadId("aaaaaaaa-0000-4000-8000-000000000000")
CHILD = ThreadId("bbbbbbbb-0000-4000-8000-000000000000")
GRANDCHILD = ThreadId("cccccccc-0000-4000-8000-000000000000")
NOW = 1000.0
NO_CAPS = Caps()


def reserve(request: str, cost: int, tokens: int = 0) -> Reserve:
    return Reserve(request=request, cost=cost, tokens=tokens)


def settle(request: str, cost: int | None, tokens: int = 0) -> Settle:
    return Settle(request=request, cost=cost, tokens=tokens)


async def tree(store: Store, root: Caps = NO_CAPS, child: Caps = NO_CAPS, grandchild: Caps = NO_CAPS) -> None:
    """Three generations, each claimed at epoch 1 with a head of 1."""
    parent: ThreadId | None = None
    for id, caps in ((ROOT, root), (CHILD, child), (GRANDCHILD, grandchild)):
        new = NewThread(
            id=id,
            tenant=Tenant("default"),
            root=ROOT,
            parent=parent,
            agent="writer",
            created_at=NOW,
            events=(b"1",),
            caps=caps,
        )
        await store.create(new)
        parent = id
    assert len(await store.claim("one", now=NOW, lease=30.0)) == 3


async def book(store: Store, thread: ThreadId, *entries: Reserve | Settle, status: ThreadStatus = "running") -> None:
    listing = Listing(status=status, agent="writer", updated_at=NOW)
    await store.commit(Commit(thread=thread, epoch=1, expected=1, ledger=entries, listing=listing))


async def sums(store: Store, thread: ThreadId = ROOT) -> tuple[int, int, int, int, int]:
    """Spent cost and tokens, reserved cost and tokens, unpriced."""
    (a,) = [account for account in await store.accounts(ROOT) if account.thread == thread]
    return a.spent_cost, a.spent_tokens, a.reserved_cost, a.reserved_tokens, a.unpriced


@pytest.mark.spec("RUN-08")
async def test_a_request_is_reserved_and_settled_on_every_account_up_to_the_root(store: Store) -> None:
    await tree(store, root=Caps(cost=100, tokens=1000))

    await book(store, GRANDCHILD, reserve("r", 10, 100))
    assert await sums(store, ROOT) == await sums(store, CHILD) == await sums(store, GRANDCHILD) == (0, 0, 10, 100, 0)
    await book(store, GRANDCHILD, settle("r", 7, 60))
    await book(store, CHILD, reserve("r", 5, 50))

    assert await store.accounts(ROOT) == [
        Account(
            thread=ROOT,
            parent=None,
            caps=Caps(cost=100, tokens=1000),
            spent_cost=7,
            spent_tokens=60,
            reserved_cost=5,
            reserved_tokens=50,
            unpriced=0,
        ),
        Account(
            thread=CHILD,
            parent=ROOT,
            caps=Caps(),
            spent_cost=7,
            spent_tokens=60,
            reserved_cost=5,
            reserved_tokens=50,
            unpriced=0,
        ),
        Account(
            thread=GRANDCHILD,
            parent=CHILD,
            caps=Caps(),
            spent_cost=7,
            spent_tokens=60,
            reserved_cost=0,
            reserved_tokens=0,
            unpriced=0,
        ),
    ]


@pytest.mark.spec("RUN-08")
@pytest.mark.parametrize(
    ("caps", "whose"),
    [
        ((Caps(cost=10), Caps(), Caps()), ROOT),
        ((Caps(), Caps(cost=10), Caps()), CHILD),
        ((Caps(), Caps(), Caps(cost=10)), GRANDCHILD),
        ((Caps(tokens=100), Caps(), Caps()), ROOT),
        ((Caps(cost=99, tokens=999), Caps(cost=99, tokens=100), Caps(cost=99)), CHILD),
    ],
)
async def test_a_cap_anywhere_above_refuses_the_whole_commit(
    store: Store, caps: tuple[Caps, Caps, Caps], whose: ThreadId
) -> None:
    await tree(store, *caps)
    await book(store, GRANDCHILD, reserve("fits", 10, 100))

    with pytest.raises(BudgetExceeded, match=whose):
        await store.commit(
            Commit(thread=GRANDCHILD, epoch=1, expected=1, events=(b"asked",), ledger=(reserve("not", 1, 1),))
        )

    assert await sums(store) == (0, 0, 10, 100, 0)
    assert len(await store.events(GRANDCHILD)) == 1


async def test_a_refused_reservation_says_what_is_left_and_what_was_asked(store: Store) -> None:
    await tree(store, root=Caps(cost=2_000_000_000, tokens=500))
    await book(store, ROOT, settle("before", 1_500_000_000, 400))

    with pytest.raises(BudgetExceeded) as of_cost:
        await book(store, CHILD, reserve("r", 750_000_000))
    with pytest.raises(BudgetExceeded) as of_tokens:
        await book(store, CHILD, reserve("r", 0, 101))

    assert of_cost.value.message == (
        f"the budget of thread {ROOT} is $2: $0.5 left, and the next request may take $0.75"
    )
    assert of_tokens.value.message == (
        f"the budget of thread {ROOT} is 500 tokens: 100 left, and the next request may take 101"
    )


async def test_what_is_settled_in_the_same_commit_makes_room_first(store: Store) -> None:
    await tree(store, root=Caps(cost=10))
    await book(store, ROOT, reserve("one", 10))

    await book(store, ROOT, settle("one", 4), reserve("two", 6))

    assert await sums(store) == (4, 0, 6, 0, 0)


async def test_settling_is_never_refused(store: Store) -> None:
    await tree(store, root=Caps(cost=10))
    await book(store, ROOT, reserve("r", 10))

    await book(store, ROOT, settle("r", 25))

    assert await sums(store) == (25, 0, 0, 0, 0)
    with pytest.raises(BudgetExceeded):
        await book(store, ROOT, reserve("again", 0))


async def test_settling_twice_is_settling_once(store: Store) -> None:
    await tree(store)
    await book(store, CHILD, reserve("r", 10, 100))

    await book(store, CHILD, settle("r", 7, 70), settle("r", 7, 70))
    await book(store, CHILD, settle("r", 7, 70))
    await book(store, CHILD, settle("unreserved", 1, 1))
    await book(store, CHILD, settle("unreserved", 1, 1))

    assert await sums(store) == (8, 71, 0, 0, 0)


async def test_reserving_twice_is_reserving_once(store: Store) -> None:
    await tree(store)

    await book(store, CHILD, reserve("r", 10, 100), reserve("r", 10, 100))
    await book(store, CHILD, reserve("r", 10, 100))
    assert await sums(store) == (0, 0, 10, 100, 0)

    await book(store, CHILD, settle("r", 1, 1))
    await book(store, CHILD, reserve("r", 10, 100))
    assert await sums(store) == (1, 1, 0, 0, 0)


async def test_a_request_of_one_thread_is_not_anothers(store: Store) -> None:
    await tree(store)
    await book(store, CHILD, reserve("r", 10))

    await book(store, ROOT, settle("r", 3))

    assert await sums(store) == (3, 0, 10, 0, 0)


async def test_a_request_without_a_price_is_counted(store: Store) -> None:
    await tree(store)
    await book(store, CHILD, reserve("r", 10, 100))

    await book(store, CHILD, settle("r", None, 70))

    assert await sums(store) == (0, 70, 0, 0, 1)


async def test_money_still_reserved_outlives_the_end_of_a_run(store: Store) -> None:
    await tree(store)
    await book(store, ROOT, reserve("open", 10), reserve("done", 5))

    await book(store, ROOT, settle("done", 5), status="completed")
    await book(store, ROOT, settle("open", 8))

    assert await sums(store) == (13, 0, 0, 0, 0)


async def test_siblings_that_ask_at_once_never_pass_the_cap_together(store: Store) -> None:
    await tree(store, root=Caps(cost=25))

    results = await asyncio.gather(
        *(book(store, thread, reserve(f"r{i}", 10)) for i in range(2) for thread in (ROOT, CHILD, GRANDCHILD)),
        return_exceptions=True,
    )

    assert sum(isinstance(result, BudgetExceeded) for result in results) == 4
    assert (await sums(store))[2] == 20


@pytest.mark.spec("RUN-08")
async def test_what_a_dead_owner_had_reserved_is_charged_once_when_the_thread_is_claimed_again(store: Store) -> None:
    """Its own requests alone: those of the threads below it have owners of their own."""
    await tree(store, root=Caps(cost=100))
    await book(store, CHILD, reserve("mine", 10, 100), reserve("done", 5, 50), settle("done", 1, 2))
    await book(store, GRANDCHILD, reserve("theirs", 7, 70))

    for owner in ("two", "three"):
        await store.claim(owner, now=NOW, lease=30.0, thread=CHILD, steal=True)

    assert await sums(store, CHILD) == await sums(store, ROOT) == (11, 102, 7, 70, 0)
    assert await sums(store, GRANDCHILD) == (0, 0, 7, 70, 0)
