"""What every store must do for readers: ranges, lists, and waking who waits."""

import asyncio
from collections.abc import Sequence

import pytest

from retinue.ports.store import (
    Claim,
    Commit,
    InboxEntry,
    InboxKind,
    Listing,
    NewThread,
    Park,
    QuestionRow,
    Store,
    StoredEvent,
    ThreadRow,
)
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


async def test_lists_are_newest_first_filtered_and_paged(store: Store) -> None:
    ids = [ThreadId(f"{i:08}-0000-4000-8000-000000000000") for i in range(6)]
    for i, id in enumerate(ids):
        await store.create(
            thread(
                id,
                created_at=NOW + i // 2,
                tenant="x" if i == 5 else "default",
                agent="even" if i % 2 == 0 else "odd",
                status="failed" if i < 2 else "idle",
                parent=ids[0] if i == 4 else None,
            )
        )

    def numbers(rows: Sequence[ThreadRow]) -> list[int]:
        return [ids.index(row.id) for row in rows]

    assert numbers(await store.rows(None)) == [5, 4, 3, 2, 1, 0]
    assert numbers(await store.rows(Tenant("default"), limit=2)) == [4, 3]
    assert numbers(await store.rows(None, before=(NOW + 1, ids[3]), limit=2)) == [2, 1]
    assert numbers(await store.rows(None, status=("failed", "waiting"))) == [1, 0]
    assert numbers(await store.rows(None, agent="odd")) == [5, 3, 1]
    assert numbers(await store.rows(None, root=ids[0])) == [4, 0]
    assert numbers(await store.rows(None, parent=ids[0])) == [4]
    assert numbers(await store.rows(None, roots_only=True, agent="even")) == [2, 0]


async def test_the_listing_is_what_the_last_commit_said(store: Store) -> None:
    claim = await started(store)
    said = Listing(
        status="waiting",
        waiting_for="question",
        title="On ships",
        agent="captain",
        steps=3,
        tokens=99,
        cost=None,
        updated_at=NOW + 5,
    )
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, listing=said))
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"2",)))

    row = await store.row(A)
    assert row is not None and row.listing == said


async def test_threads_are_found_by_the_start_of_their_id(store: Store) -> None:
    ids = [ThreadId(f"abc{i:05}-0000-4000-8000-000000000000") for i in range(12)]
    for id in ids:
        await store.create(thread(id))
    await store.create(thread(B, tenant="x"))

    assert await store.find(None, "abc") == ids[:10]
    assert await store.find(None, "abc00011") == ids[11:]
    assert await store.find(Tenant("x"), "") == [B]
    assert await store.find(None, "abd") == []


async def test_a_question_is_closed_by_writing_it_again(store: Store) -> None:
    claim = await started(store)
    asked = QuestionRow(id=QuestionId("q"), open=True, data=b"?")
    answered = QuestionRow(id=QuestionId("q"), open=False, data=b"!")
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, questions=(asked,)))
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, questions=(answered,)))

    assert await store.questions(None) == []
    assert await store.questions(Tenant("default"), open=False, root=A, thread=A) == [(A, answered)]
    assert await store.question(None, QuestionId("q")) == (A, answered)
    assert await store.question(Tenant("another"), QuestionId("q")) is None
    assert await store.questions(None, open=False, thread=B) == []


async def test_a_waiting_reader_wakes_when_the_thread_grows(store: Store) -> None:
    claim = await started(store)
    assert await store.changed(A, after=0, timeout=SOON)
    assert not await store.changed(A, after=1, timeout=0.01)
    assert not await store.changed(B, after=0, timeout=0.01)

    readers = [asyncio.create_task(store.changed(A, after=after, timeout=SOON)) for after in (1, 1, 2)]
    await asyncio.sleep(0)
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"2", b"3")))

    assert await asyncio.gather(*readers) == [True, True, True]


async def test_a_reader_waits_through_changes_that_are_not_enough(store: Store) -> None:
    claim = await started(store)
    reader = asyncio.create_task(store.changed(A, after=2, timeout=SOON))
    await asyncio.sleep(0)

    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"2",)))
    await asyncio.sleep(0)
    assert not reader.done()
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=2, events=(b"3",)))

    assert await reader


@pytest.mark.spec("SCALE-04")
async def test_a_waiting_reader_wakes_when_another_process_writes(store: Store, other: Store) -> None:
    await started(store)
    reader = asyncio.create_task(other.changed(A, after=1, timeout=SOON))
    await asyncio.sleep(0)

    await store.commit(Commit(thread=A, epoch=1, expected=1, events=(b"2",)))

    assert await reader
    assert await log(other) == [b"1", b"2"]


async def test_work_is_announced_once_for_all_that_came_before(store: Store) -> None:
    assert not await store.work(0.01)
    await store.create(thread(A))
    await store.create(thread(B))

    assert await store.work(SOON)
    assert not await store.work(0.01)


async def test_work_comes_of_children_messages_timers_and_threads_given_up(store: Store) -> None:
    claim = await started(store)
    await store.work(SOON)
    commits = (
        Commit(thread=A, epoch=claim.epoch, expected=1, events=(b"2",), listing=listing()),
        Commit(thread=A, epoch=claim.epoch, expected=2, spawn=(thread(B),)),
        Commit(thread=A, epoch=claim.epoch, expected=2, send=((B, entry("m")),)),
        Commit(thread=A, epoch=claim.epoch, expected=2, park=Park(inbox_head=0, until=NOW)),
    )
    announced: list[bool] = []

    for commit in commits:
        await store.commit(commit)
        announced.append(await store.work(0.01))
    await store.release(await claimed(store), runnable_at=NOW)
    announced.append(await store.work(0.01))

    assert announced == [False, True, True, True, True]


@pytest.mark.spec("RUN-13")
async def test_a_message_from_another_process_is_work(store: Store, other: Store) -> None:
    await store.create(thread(runnable=False))
    waiter = asyncio.create_task(store.work(SOON))
    await asyncio.sleep(0)

    await other.admit(A, entry("m"))

    while not await store.claim("one", now=NOW, lease=LEASE):
        assert await waiter
        waiter = asyncio.create_task(store.work(SOON))
    waiter.cancel()
    assert await waiting(store) == ["m"]


@pytest.mark.spec("RUN-01")
async def test_events_are_read_in_ranges_whatever_commits_they_came_in(store: Store) -> None:
    claim = await started(store)
    sizes = (1, 3, 2, 1, 4)
    for size in sizes:
        head = len(await log(store))
        events = tuple(b"%d" % (head + i + 1) for i in range(size))
        await store.commit(Commit(thread=A, epoch=claim.epoch, expected=head, events=events))

    everything = [StoredEvent(seq=seq, data=b"%d" % seq) for seq in range(1, 13)]
    for after in range(13):
        for limit in (1, 2, 5, 100):
            assert await store.events(A, after=after, limit=limit) == everything[after : after + limit]


async def test_events_keep_every_byte(store: Store) -> None:
    claim = await started(store)
    events = (b"", b"\x00\xff,", b"x" * 100_000, b"")
    await store.commit(Commit(thread=A, epoch=claim.epoch, expected=1, events=events))

    assert await log(store) == [b"1", *events]
