"""What every store must do with threads: two ways to write, one owner, nothing lost."""

import asyncio
from collections.abc import Callable

import pytest

from retinue.ports.store import (
    Claim,
    Commit,
    Committed,
    InboxEntry,
    InboxKind,
    Listing,
    NewThread,
    Park,
    QuestionRow,
    Store,
    StoredEvent,
    StoredInbox,
)
from retinue.schema.errors import Conflict, Fenced, ThreadNotFound
from retinue.schema.ids import QuestionId, Tenant, ThreadId
from retinue.schema.thread import ThreadStatus

A = ThreadId("aaaaaaaa-0000-4000-8000-000000000000")
B = ThreadId("bbbbbbbb-0000-4000-8000-000000000000")
NOW = 1000.0
LEASE = 30.0
SOON = 5.0


def thread(
    id: ThreadId = A,
    *,
    events: tuple[bytes, ...] = (b"1",),
    inbox: tuple[InboxEntry, ...] = (),
    runnable: bool = True,
    parent: ThreadId | None = None,
    created_at: float = NOW,
    tenant: str = "default",
    agent: str = "writer",
    status: ThreadStatus = "idle",
) -> NewThread:
    return NewThread(
        id=id,
        tenant=Tenant(tenant),
        root=parent or id,
        parent=parent,
        agent=agent,
        created_at=created_at,
        events=events,
        inbox=inbox,
        runnable=runnable,
        status=status,
    )


def entry(id: str, kind: InboxKind = "message", *, data: bytes = b"{}", at: float = NOW) -> InboxEntry:
    return InboxEntry(id=id, kind=kind, data=data, at=at)


def listing(status: ThreadStatus = "running") -> Listing:
    return Listing(status=status, agent="writer", updated_at=NOW)


async def claimed(store: Store, id: ThreadId = A, *, owner: str = "one", now: float = NOW) -> Claim:
    (claim,) = await store.claim(owner, now=now, lease=LEASE, thread=id)
    return claim


async def started(store: Store, id: ThreadId = A) -> Claim:
    await store.create(thread(id))
    return await claimed(store, id)


async def log(store: Store, id: ThreadId = A) -> list[bytes]:
    return [event.data for event in await store.events(id)]


async def waiting(store: Store, id: ThreadId = A) -> list[str]:
    return [stored.entry.id for stored in await store.inbox(id)]


@pytest.mark.spec("RUN-01")
async def test_a_created_thread_has_its_events_its_inbox_and_its_row(store: Store) -> None:
    assert await store.create(thread(events=(b"1", b"2"), inbox=(entry("m"),)))

    assert await store.events(A) == [StoredEvent(seq=1, data=b"1"), StoredEvent(seq=2, data=b"2")]
    assert await store.inbox(A) == [StoredInbox(position=1, entry=entry("m"))]
    row = await store.row(A)
    assert row is not None
    assert (row.head, row.inbox_head, row.runnable_at, row.owner, row.listing.status) == (2, 1, NOW, None, "idle")


async def test_creating_a_thread_twice_does_nothing(store: Store) -> None:
    await store.create(thread(events=(b"first",)))

    assert not await store.create(thread(events=(b"second", b"third")))
    assert await log(store) == [b"first"]


async def test_a_thread_that_is_not_there_has_nothing(store: Store) -> None:
    assert (await store.row(A), await store.events(A), await store.inbox(A)) == (None, [], [])
    with pytest.raises(ThreadNotFound):
        await store.admit(A, entry("m"))
    with pytest.raises(ThreadNotFound):
        await store.commit(Commit(thread=A, epoch=0, expected=0, events=(b"1",)))


@pytest.mark.spec("RUN-13")
async def test_what_is_admitted_waits_in_order_and_once(store: Store) -> None:
    await store.create(thread())

    positions = [await store.admit(A, entry(id)) for id in ("x", "y", "x", "z", "y")]

    assert positions == [1, 2, 1, 3, 2]
    assert await waiting(store) == ["x", "y", "z"]
    assert await store.inbox(A, after=1, limit=1) == [StoredInbox(position=2, entry=entry("y"))]


@pytest.mark.spec("RUN-13")
async def test_an_entry_that_was_drained_is_still_known(store: Store) -> None:
    claim = await started(store)
    await store.admit(A, entry("x"))
    await store.admit(A, entry("y"))

    done = await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"x",), drained=1))

    assert done == Committed(head=2, parked=False, inbox_head=2)
    assert await waiting(store) == ["y"]
    assert await store.admit(A, entry("x")) == 1
    assert await waiting(store) == ["y"]


async def test_admitting_makes_a_parked_thread_runnable(store: Store) -> None:
    claim = await started(store)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, park=Park(inbox_head=0)))
    assert await store.claim("one", now=NOW + 1, lease=LEASE) == []

    await store.admit(A, entry("m"))

    assert [claim.epoch for claim in await store.claim("one", now=NOW + 1, lease=LEASE)] == [2]


async def test_admitting_to_an_owned_thread_leaves_it_to_its_owner(store: Store) -> None:
    claim = await started(store)
    await store.admit(A, entry("m"))

    assert await store.claim("two", now=NOW + 1, lease=LEASE) == []
    assert await store.unread("one") == [A]
    assert await store.unread("two") == []
    assert (await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1))).inbox_head == 1


async def test_a_terminated_thread_takes_nothing_more(store: Store) -> None:
    claim = await started(store)
    await store.admit(A, entry("before"))
    await store.commit(
        Commit(
            thread=A, epoch=claim.epoch, expected=1, drained=1, listing=listing("terminated"), park=Park(inbox_head=1)
        )
    )

    with pytest.raises(Conflict, match="terminated"):
        await store.admit(A, entry("after"))
    assert await store.admit(A, entry("before")) == 1


@pytest.mark.spec("RUN-01")
async def test_a_commit_at_another_head_leaves_nothing(store: Store) -> None:
    claim = await started(store)
    before = await store.row(A)

    for expected in (0, 2):
        with pytest.raises(Fenced):
            await store.commit(
                Commit(
                    thread=A,
                    epoch=claim.epoch,
                    expected=expected,
                    events=(b"no",),
                    spawn=(thread(B, parent=A),),
                    listing=listing(),
                )
            )

    assert (await log(store), await store.row(A), await store.row(B)) == ([b"1"], before, None)


@pytest.mark.spec("SCALE-02")
async def test_an_owner_whose_thread_was_taken_over_can_not_write(store: Store) -> None:
    old = await started(store)
    (new,) = await store.claim("two", now=NOW, lease=LEASE, steal=True)

    with pytest.raises(Fenced, match="two"):
        await store.commit(Commit(thread=A, epoch=old.epoch, expected=1, events=(b"late",)))

    assert new.epoch == old.epoch + 1
    await store.commit(Commit(thread=A, epoch=new.epoch, expected=1, events=(b"mine",)))
    assert await log(store) == [b"1", b"mine"]


@pytest.mark.spec("SCALE-02")
async def test_an_owner_that_gave_a_thread_up_can_not_write(store: Store) -> None:
    claim = await started(store)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, park=Park(inbox_head=0)))

    with pytest.raises(Fenced, match="given up"):
        await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"late",)))


@pytest.mark.spec("SCALE-02")
async def test_takeover_waits_for_the_lease_and_a_margin(store: Store) -> None:
    await started(store)

    for now in (NOW, NOW + LEASE, NOW + LEASE + 1.9):
        assert await store.claim("two", now=now, lease=LEASE) == []
    assert [claim.thread for claim in await store.claim("two", now=NOW + LEASE + 2, lease=LEASE)] == [A]


async def test_every_commit_extends_the_lease(store: Store, set_time: Callable[[float], None]) -> None:
    claim = await started(store)
    assert claim.lease_until == NOW + LEASE

    set_time(NOW + 20)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"2",)))

    row = await store.row(A)
    assert row is not None and row.lease_until == NOW + 20 + LEASE
    assert await store.claim("two", now=NOW + LEASE + 2, lease=LEASE) == []


async def test_what_an_owner_holds_is_not_claimed_by_it_again(store: Store) -> None:
    await started(store)

    assert await store.claim("one", now=NOW, lease=LEASE, steal=True) == []
    assert await store.claim("one", now=NOW + 3600, lease=LEASE) == []


async def test_claims_take_the_oldest_runnable_first_and_no_more_than_asked(store: Store) -> None:
    ids = [ThreadId(f"{i:08}-0000-4000-8000-000000000000") for i in range(5)]
    for age, id in enumerate(ids):
        await store.create(thread(id, created_at=NOW - age))

    first = await store.claim("one", now=NOW, lease=LEASE, limit=3)
    rest = await store.claim("two", now=NOW, lease=LEASE)

    assert [claim.thread for claim in (*first, *rest)] == ids[::-1]


async def test_a_thread_created_at_rest_is_not_claimed(store: Store) -> None:
    await store.create(thread(runnable=False))

    assert await store.claim("one", now=NOW + 1, lease=LEASE, thread=A, steal=True) == []
    assert await store.next_due() is None


@pytest.mark.spec("RUN-13")
async def test_parking_is_refused_when_something_was_admitted_meanwhile(store: Store) -> None:
    claim = await started(store)
    await store.admit(A, entry("m"))

    done = await store.commit(
        Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"2",), park=Park(inbox_head=0, until=NOW + 1))
    )

    assert done == Committed(head=2, parked=False, inbox_head=1)
    row = await store.row(A)
    assert row is not None and (row.owner, row.head, row.runnable_at) == ("one", 2, NOW)
    done = await store.commit(Commit(thread=A, epoch=claim.epoch, expected=2, drained=1, park=Park(inbox_head=1)))
    assert done == Committed(head=2, parked=True, inbox_head=1)


async def test_a_parked_thread_comes_back_when_its_time_has_come(store: Store) -> None:
    claim = await started(store)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, park=Park(inbox_head=0, until=NOW + 60)))

    assert await store.next_due() == NOW + 60
    assert await store.claim("one", now=NOW + 59, lease=LEASE) == []
    assert [claim.thread for claim in await store.claim("one", now=NOW + 60, lease=LEASE)] == [A]


async def test_a_message_comes_before_the_timer_of_a_parked_thread(store: Store) -> None:
    claim = await started(store)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, park=Park(inbox_head=0, until=NOW + 60)))

    await store.admit(A, entry("m"))

    assert await store.next_due() == NOW


async def test_renewing_says_which_threads_were_lost(store: Store) -> None:
    await started(store, A)
    await started(store, B)
    await store.claim("two", now=NOW, lease=LEASE, thread=B, steal=True)

    assert await store.renew("one", [A, B], lease_until=NOW + 500) == [B]
    rows = [await store.row(id) for id in (A, B)]
    assert [row and row.lease_until for row in rows] == [NOW + 500, NOW + LEASE]


async def test_a_released_thread_is_runnable_when_it_was_told_something(store: Store) -> None:
    """Giving up without looking again must not lose a message."""
    quiet, told = await started(store, A), await started(store, B)
    await store.admit(B, entry("m"))

    await store.release(quiet, runnable_at=None)
    await store.release(told, runnable_at=None)

    assert [claim.thread for claim in await store.claim("two", now=NOW, lease=LEASE)] == [B]


async def test_releasing_what_another_owns_does_nothing(store: Store) -> None:
    old = await started(store)
    await store.claim("two", now=NOW, lease=LEASE, steal=True)

    await store.release(old, runnable_at=None)

    row = await store.row(A)
    assert row is not None and row.owner == "two"


@pytest.mark.spec("RUN-01", "RUN-11")
async def test_a_commit_carries_children_messages_and_questions_with_it(store: Store) -> None:
    claim = await started(store)
    await store.create(thread(B, runnable=False))
    child = ThreadId("cccccccc-0000-4000-8000-000000000000")
    question = QuestionRow(id=QuestionId("q"), open=True, data=b"?", expires=NOW + 9)

    await store.commit(
        Commit(
            thread=A,
            epoch=claim.epoch,
            expected=1,
            events=(b"2",),
            spawn=(thread(child, parent=A), thread(B, events=(b"never",))),
            send=((B, entry("hello", "child")), (ThreadId("nobody"), entry("lost"))),
            questions=(question,),
        )
    )

    assert [row.id for row in await store.rows(None, parent=A)] == [child]
    assert (await log(store, B), await waiting(store, B)) == ([b"1"], ["hello"])
    assert await store.questions(None) == [(A, question)]
    assert {claim.thread for claim in await store.claim("one", now=NOW, lease=LEASE)} == {child, B}


async def test_a_thread_that_writes_to_itself_does_not_park_over_it(store: Store) -> None:
    claim = await started(store)

    done = await store.commit(
        Commit(thread=A, epoch=claim.epoch, expected=1, send=((A, entry("me")),), park=Park(inbox_head=0))
    )

    assert done == Committed(head=1, parked=False, inbox_head=1)


async def test_one_conflict_fails_alone_among_commits_of_the_same_moment(store: Store) -> None:
    ids = [ThreadId(f"{i:08}-0000-4000-8000-000000000000") for i in range(20)]
    claims = [await started(store, id) for id in ids]

    results = await asyncio.gather(
        *(
            store.commit(Commit(thread=claim.thread, epoch=claim.epoch, expected=i % 2, events=(b"2",)))
            for i, claim in enumerate(claims)
        ),
        return_exceptions=True,
    )

    assert [isinstance(result, Fenced) for result in results] == [i % 2 == 0 for i in range(20)]
    assert [len(await log(store, id)) for id in ids] == [1 + i % 2 for i in range(20)]


@pytest.mark.spec("SCALE-02")
async def test_two_processes_never_claim_the_same_thread(store: Store, other: Store) -> None:
    for i in range(40):
        await store.create(thread(ThreadId(f"{i:08}-0000-4000-8000-000000000000")))

    async def take(of: Store, owner: str) -> list[ThreadId]:
        taken: list[ThreadId] = []
        while claims := await of.claim(owner, now=NOW, lease=LEASE, limit=3):
            taken += [claim.thread for claim in claims]
        return taken

    one, two = await asyncio.gather(take(store, "one"), take(other, "two"))

    assert len(one) + len(two) == len({*one, *two}) == 40


async def test_a_clock_that_jumps_an_hour_ahead_costs_ownership_and_nothing_else(
    store: Store, set_time: Callable[[float], None]
) -> None:
    old = await started(store)
    set_time(NOW + 3600)
    (new,) = await store.claim("two", now=NOW + 3600, lease=LEASE)

    with pytest.raises(Fenced):
        await store.commit(Commit(thread=A, epoch=old.epoch, expected=1, events=(b"no",)))
    assert (await store.commit(Commit(thread=A, epoch=new.epoch, expected=1, events=(b"2",)))).head == 2


async def test_a_clock_that_jumps_an_hour_back_delays_nothing_that_was_due(
    store: Store, set_time: Callable[[float], None]
) -> None:
    await store.create(thread(A, runnable=False))
    claim = await started(store, B)
    await store.admit(A, entry("m"))
    await store.release(claim, runnable_at=NOW)
    set_time(NOW - 3600)

    claims = await store.claim("one", now=NOW - 3600, lease=LEASE)

    assert {claim.thread for claim in claims} == {A, B}


async def test_a_clock_that_was_set_back_while_nobody_ran_delays_no_message(store: Store, other: Store) -> None:
    await store.create(thread(runnable=False))
    await store.admit(A, entry("m"))

    assert [claim.thread for claim in await other.claim("one", now=NOW - 3600, lease=LEASE)] == [A]


@pytest.mark.spec("SUB-16")
async def test_an_agent_without_room_is_not_claimed_unless_it_was_told_to_stop(store: Store) -> None:
    """The oldest of each agent come first, and one that is full holds up nobody else."""
    ids = [ThreadId(f"{n:08d}-0000-4000-8000-000000000000") for n in range(6)]
    for n, (id, agent) in enumerate(zip(ids, ("busy", "busy", "busy", "full", "full", "free"), strict=True)):
        await store.create(thread(id, agent=agent, created_at=1.0 + n))
    await store.admit(ids[4], entry("stop", "cancel", at=50.0))

    claims = await store.claim("one", now=100.0, lease=30.0, room={"busy": 2, "full": 0})

    assert [(claim.thread, claim.agent) for claim in claims] == [
        (ids[0], "busy"),
        (ids[1], "busy"),
        (ids[4], "full"),
        (ids[5], "free"),
    ]
    assert await store.next_due(full=["busy", "full"]) is None
    assert await store.next_due(full=["full"]) == 3.0
