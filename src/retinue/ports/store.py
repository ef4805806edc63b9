"""The durable side of threads: two ways to write, and reads that never block a writer.

`admit` is for anybody: it appends to a thread's inbox and makes it runnable.
`commit` is the owner's alone and carries everything that belongs together in
one transaction. A store keeps bytes and knows no event types.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from retinue.schema.ids import QuestionId, Seq, Tenant, ThreadId
from retinue.schema.thread import ThreadStatus

InboxKind = Literal[
    "message",  # somebody says something
    "answer",  # to a question
    "interrupt",
    "resume",
    "cancel",
    "terminate",
    "child",  # a child completed, failed or set its status
    "variables",
    "nudge",  # look at the log again; carries nothing
]


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing said to a thread. `id` deduplicates: admitting it twice is admitting it once."""

    id: str
    kind: InboxKind
    data: bytes = b"{}"
    at: float


class StoredInbox(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    """From 1, without gaps, per thread."""
    entry: InboxEntry


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    seq: Seq
    data: bytes


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one account of the tree's ledger; cost in nano-dollars."""

    cost: int | None = None
    tokens: int | None = None


class NewThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread with its first events. Creating an id that exists does nothing."""

    id: ThreadId
    tenant: Tenant
    root: ThreadId
    parent: ThreadId | None = None
    agent: str
    created_at: float
    events: tuple[bytes, ...]
    inbox: tuple[InboxEntry, ...] = ()
    caps: Caps = Caps()
    title: str | None = None
    status: ThreadStatus = "idle"
    runnable: bool = True


class Reserve(msgspec.Struct, frozen=True, kw_only=True, tag="reserve"):
    """Set money aside before a request, on the thread's account and all above it.

    When one of them would pass its cap the whole commit fails with `BudgetExceeded`.
    """

    request: str
    cost: int
    tokens: int


class Settle(msgspec.Struct, frozen=True, kw_only=True, tag="settle"):
    """What a reserved request cost in the end. Settling one twice is settling it once.

    Without a reservation of that id the amounts are simply added. An empty id says that
    there was none: nothing is looked up or remembered.
    """

    request: str
    cost: int | None
    """None: no price is known; counted as unpriced."""
    tokens: int


class QuestionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The listing of a question; its truth is in the thread's log."""

    id: QuestionId
    open: bool
    data: bytes
    expires: float | None = None


class Park(msgspec.Struct, frozen=True, kw_only=True):
    """Give the thread up until something is admitted or `until` comes.

    Refused when the inbox's head is no longer `inbox_head`: drain again first.
    """

    inbox_head: int
    until: float | None = None


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What lists of threads show; derived from the log, written with it."""

    status: ThreadStatus
    waiting_for: str | None = None
    title: str | None = None
    agent: str
    steps: int = 0
    tokens: int = 0
    cost: int | None = 0
    updated_at: float


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic write by the owner. All of it happens, or nothing and an exception."""

    thread: ThreadId
    epoch: int
    expected: Seq
    """The head before; a mismatch or a stale epoch raises `Fenced`."""
    events: tuple[bytes, ...] = ()
    drained: int | None = None
    """Inbox entries up to this position are now in the log and are deleted."""
    spawn: tuple[NewThread, ...] = ()
    send: tuple[tuple[ThreadId, InboxEntry], ...] = ()
    """Admitted to other threads in the same transaction; unknown or terminated targets are skipped."""
    ledger: tuple[Reserve | Settle, ...] = ()
    questions: tuple[QuestionRow, ...] = ()
    listing: Listing | None = None
    park: Park | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    head: Seq
    parked: bool
    inbox_head: int
    """Entries past what was drained are waiting when this is larger."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run a thread, until `lease_until` or the next claim bumps the epoch."""

    thread: ThreadId
    epoch: int
    head: Seq
    lease_until: float
    agent: str = ""


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    id: ThreadId
    tenant: Tenant
    root: ThreadId
    parent: ThreadId | None
    created_at: float
    head: Seq
    inbox_head: int
    drained: int
    runnable_at: float | None
    owner: str | None
    lease_until: float
    epoch: int
    listing: Listing


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One thread's line in the tree's ledger; sums include everything below it."""

    thread: ThreadId
    parent: ThreadId | None
    caps: Caps
    spent_cost: int
    spent_tokens: int
    reserved_cost: int
    reserved_tokens: int
    unpriced: int
    """Requests whose price is not known."""


class Store(Protocol):
    async def create(self, thread: NewThread) -> bool:
        """Acknowledged when on disk; False when the id exists already."""
        ...

    async def admit(self, thread: ThreadId, entry: InboxEntry) -> int:
        """Append to the inbox, make the thread runnable; returns the position (the old one for a duplicate).

        Raises:
            ThreadNotFound: there is no such thread.
            Conflict: the thread is terminated and takes nothing more.
        """
        ...

    async def commit(self, commit: Commit) -> Committed: ...

    async def claim(
        self,
        owner: str,
        *,
        now: float,
        lease: float,
        limit: int = 64,
        thread: ThreadId | None = None,
        room: Mapping[str, int] | None = None,
        steal: bool = False,
    ) -> Sequence[Claim]:
        """Take runnable threads that nobody holds, oldest runnable first, bumping their epochs.

        What such a thread had reserved is charged: whoever asked is gone. `room` is how many more threads
        of an agent may be taken; one that was told to stop is taken all the same, to be stopped.
        `thread` restricts it to one. `steal` ignores other owners' leases: only
        for the process that holds the data folder's lock. What `owner` holds
        already is never taken again, so a name is used by one process, once.
        """
        ...

    async def renew(self, owner: str, threads: Sequence[ThreadId], *, lease_until: float) -> Sequence[ThreadId]:
        """Extend leases; returns the threads that are no longer the owner's."""
        ...

    async def release(self, claim: Claim, *, runnable_at: float | None) -> None:
        """Give a thread up without writing events (shutdown)."""
        ...

    async def next_due(self, *, full: Sequence[str] = ()) -> float | None:
        """When the earliest unowned thread becomes runnable; threads of the agents in `full` do not count."""
        ...

    async def work(self, timeout: float) -> bool:
        """Wait until some thread may have become runnable, also by another process; False when none has.

        Whatever happened since the last call returned counts, so one caller
        that claims after each return misses nothing.
        """
        ...

    async def unread(self, owner: str) -> Sequence[ThreadId]:
        """Threads the owner holds whose inbox has entries that are not drained: others may have admitted them."""
        ...

    async def inbox(self, thread: ThreadId, *, after: int = 0, limit: int = 256) -> Sequence[StoredInbox]: ...

    async def events(self, thread: ThreadId, *, after: Seq = 0, limit: int = 1000) -> Sequence[StoredEvent]: ...

    async def row(self, thread: ThreadId) -> ThreadRow | None: ...

    async def rows(
        self,
        tenant: Tenant | None,
        *,
        status: Sequence[ThreadStatus] = (),
        agent: str | None = None,
        root: ThreadId | None = None,
        parent: ThreadId | None = None,
        roots_only: bool = False,
        before: tuple[float, ThreadId] | None = None,
        limit: int = 50,
    ) -> Sequence[ThreadRow]:
        """Newest first by (created_at, id); `before` is the cursor."""
        ...

    async def find(self, tenant: Tenant | None, prefix: str) -> Sequence[ThreadId]:
        """Threads whose id starts with `prefix`, at most ten."""
        ...

    async def changed(self, thread: ThreadId, *, after: Seq, timeout: float) -> bool:
        """Wait until the thread's head passes `after`, also when another process writes."""
        ...

    async def questions(
        self, tenant: Tenant | None, *, open: bool = True, root: ThreadId | None = None, thread: ThreadId | None = None
    ) -> Sequence[tuple[ThreadId, QuestionRow]]: ...

    async def question(self, tenant: Tenant | None, id: QuestionId) -> tuple[ThreadId, QuestionRow] | None: ...

    async def accounts(self, root: ThreadId) -> Sequence[Account]: ...

    async def close(self) -> None: ...
