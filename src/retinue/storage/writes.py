"""What each way of writing does inside the writer's transaction.

Every function checks before it changes anything, so that a refused one leaves
the transaction as it found it and fails alone. A commit is few statements, each
with a constant text: one read of the thread's row, one update of it, one insert
for all its events. RETURNING would save the read and cost more than it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import json
from msgspec.structs import astuple

from retinue.ports.store import Claim, Commit, Committed, InboxEntry, Listing, NewThread, Park
from retinue.schema.errors import Conflict, Fenced, ThreadNotFound
from retinue.schema.ids import Seq, ThreadId
from retinue.storage import ledger
from retinue.storage.writer import Transaction

TAKEOVER_MARGIN = 2.0
"""Seconds after a lease's end before another may take the thread."""

REMEMBERED_ENTRIES = 10_000
"""How many drained inbox entries of a thread are remembered, to know a duplicate."""

LISTED = Listing.__struct_fields__
"""Columns too: a new field needs a migration."""

_ENDED = frozenset({"completed", "failed", "terminated"})

_CREATE = """
    INSERT INTO threads (id, tenant, root, parent, parent_key, created_at, head, inbox_head, runnable_at,
        status, title, agent, cost, updated_at, cap_cost, cap_tokens)
    VALUES (?, ?, ?, ?4, (SELECT key FROM threads WHERE id = ?4), ?, ?, ?, ?, ?, ?, ?, 0, ?5, ?, ?)
    ON CONFLICT (id) DO NOTHING RETURNING key
"""

_APPEND = "INSERT INTO events VALUES (?, ?, ?, ?)"

_FIND_ENTRY = """
    SELECT key, inbox_head, status, position FROM threads
    LEFT JOIN inbox ON inbox.thread = threads.key AND inbox.id = ? WHERE threads.id = ?
"""

_ADMIT = "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?)"

_WAKE = """
    UPDATE threads SET inbox_head = ?, runnable_at = CASE
        WHEN owner IS NULL THEN min(ifnull(runnable_at, ?2), ?2) ELSE runnable_at END
    WHERE key = ?
"""

_OWNED = f"""
    SELECT key, epoch, head, owner, inbox_head, drained, lease, id, parent_key, {ledger.LINE}
    FROM threads WHERE id = ?
"""

_ADVANCE = f"""
    UPDATE threads SET head = ?, drained = ?, lease_until = ?, {ledger.SET_SUMS} WHERE key = ?
"""
_ADVANCE_LISTED = f"""
    UPDATE threads SET head = ?, drained = ?, lease_until = ?, {ledger.SET_SUMS},
        {", ".join(f"{name} = ?" for name in LISTED)}
    WHERE key = ?
"""

_DRAIN = "UPDATE inbox SET data = NULL WHERE thread = ? AND position > ? AND position <= ?"
_FORGET = "DELETE FROM inbox WHERE thread = ? AND position <= ?"

_QUESTION = """
    INSERT INTO questions (id, thread, open, data, expires) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET open = excluded.open, data = excluded.data, expires = excluded.expires
    WHERE thread = excluded.thread
"""

_PARK = "UPDATE threads SET owner = NULL, lease_until = 0, runnable_at = ? WHERE key = ?"

_DUE = """
    SELECT key, runnable_at FROM threads WHERE owner IS NULL AND runnable_at <= ?3
    UNION ALL
    SELECT key, runnable_at FROM threads
    WHERE owner IS NOT NULL AND owner <> ?1 AND runnable_at <= ?3 AND (?5 OR lease_until <= ?3 - ?6)
    ORDER BY runnable_at, key LIMIT ?4
"""
_DUE_WITHIN = """
    WITH due AS (
        SELECT key, runnable_at, agent, drained FROM threads WHERE owner IS NULL AND runnable_at <= ?3
        UNION ALL
        SELECT key, runnable_at, agent, drained FROM threads
        WHERE owner IS NOT NULL AND owner <> ?1 AND runnable_at <= ?3 AND (?5 OR lease_until <= ?3 - ?6)
    )
    SELECT placed.key, runnable_at FROM (
        SELECT *, row_number() OVER (PARTITION BY agent ORDER BY runnable_at, key) AS place FROM due
    ) AS placed LEFT JOIN json_each(?7) AS room ON room.key = agent
    WHERE room.value IS NULL OR place <= room.value OR EXISTS (
        SELECT 1 FROM inbox WHERE thread = placed.key AND position > drained
            AND kind IN ('interrupt', 'cancel', 'terminate'))
    ORDER BY runnable_at, placed.key LIMIT ?4
"""
_DUE_ONE = """
    SELECT key, runnable_at FROM threads WHERE id = ?7 AND runnable_at <= ?3
    AND (owner IS NULL OR (owner <> ?1 AND (?5 OR lease_until <= ?3 - ?6)))
"""
_CLAIM = """
    UPDATE threads SET owner = ?1, epoch = epoch + 1, lease = ?2, lease_until = ?3 + ?2
    WHERE key IN (SELECT key FROM ({due}))
    RETURNING id, epoch, head, lease_until, agent, runnable_at, key, reserved_tokens
"""

_SET_BACK = """
    UPDATE threads SET runnable_at = ?1
    WHERE owner IS NULL AND runnable_at > ?1 AND (runnable_at <= ?2 OR inbox_head > drained)
"""

_RELEASE = """
    UPDATE threads SET owner = NULL, lease_until = 0, runnable_at = CASE
        WHEN inbox_head > drained THEN min(ifnull(?1, ?2), ?2) ELSE ?1 END
    WHERE id = ?3 AND epoch = ?4 AND owner IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claiming:
    owner: str
    now: float
    lease: float
    limit: int
    thread: ThreadId | None
    steal: bool
    room: Mapping[str, int] | None = None

    @property
    def due(self) -> str:
        """A query for what this would take."""
        return _DUE_ONE if self.thread is not None else _DUE_WITHIN if self.room else _DUE

    @property
    def parameters(self) -> tuple[object, ...]:
        several = (self.owner, self.lease, self.now, self.limit, self.steal, TAKEOVER_MARGIN)
        if self.thread is not None:
            return (*several, self.thread)
        return (*several, json.encode(self.room).decode()) if self.room else several


def create(transaction: Transaction, new: NewThread) -> bool:
    runnable_at = min(new.created_at, transaction.now) if new.runnable else None
    row = (
        *(new.id, new.tenant, new.root, new.parent, new.created_at, len(new.events), len(new.inbox), runnable_at),
        *(new.status, new.title, new.agent, new.caps.cost, new.caps.tokens),
    )
    created = transaction.execute(_CREATE, row).fetchone()
    if created is None:
        return False
    key: int = created[0]
    if new.events:
        _append(transaction, key, len(new.events), new.events)
        transaction.moved.add(new.id)
    for position, entry in enumerate(new.inbox, start=1):
        transaction.execute(_ADMIT, (key, position, entry.id, entry.kind, entry.data, entry.at))
    transaction.woke |= new.runnable
    return True


def admit(transaction: Transaction, admission: tuple[ThreadId, InboxEntry]) -> int:
    thread, entry = admission
    found = transaction.execute(_FIND_ENTRY, (entry.id, thread)).fetchone()
    if found is None:
        raise ThreadNotFound(f"there is no thread {thread}")
    key, head, status, position = found
    if position is not None:
        return position
    if status == "terminated":
        raise Conflict(f"thread {thread} is terminated and takes no {entry.kind}", hint="start a new thread")
    transaction.execute(_ADMIT, (key, head + 1, entry.id, entry.kind, entry.data, entry.at))
    transaction.execute(_WAKE, (head + 1, min(entry.at, transaction.now), key))
    transaction.woke = True
    return head + 1


def commit(transaction: Transaction, commit: Commit) -> Committed:
    execute = transaction.execute
    found = execute(_OWNED, (commit.thread,)).fetchone()
    if found is None:
        raise ThreadNotFound(f"there is no thread {commit.thread}")
    key, epoch, head, owner, inbox_head, drained, lease, *line = found
    if epoch != commit.epoch or head != commit.expected or owner is None:
        raise _fenced(commit, epoch, head, owner)
    account = ledger.Account._make(line)
    sums = ledger.book(transaction, key, account, commit.ledger) if commit.ledger else line[4:]
    if commit.drained is not None and commit.drained > drained:
        execute(_DRAIN, (key, drained, commit.drained))
        execute(_FORGET, (key, commit.drained - REMEMBERED_ENTRIES))
        drained = commit.drained
    head += len(commit.events)
    _advance(transaction, key, (head, drained, transaction.now + lease, *sums), commit.listing)
    if commit.events:
        _append(transaction, key, head, commit.events)
        transaction.moved.add(commit.thread)
    for new in commit.spawn:
        create(transaction, new)
    for target, entry in commit.send:
        position = _send(transaction, target, entry)
        if target == commit.thread:
            inbox_head = max(inbox_head, position)
    for question in commit.questions:
        execute(_QUESTION, (question.id, key, question.open, question.data, question.expires))
    if commit.listing is not None and commit.listing.status in _ENDED:
        ledger.prune(transaction, key)
    parked = commit.park is not None and _park(transaction, key, commit.park, inbox_head)
    return Committed(head=head, parked=parked, inbox_head=inbox_head)


def claim(transaction: Transaction, claiming: Claiming) -> Sequence[Claim]:
    taken = transaction.execute(_CLAIM.format(due=claiming.due), claiming.parameters).fetchall()
    taken.sort(key=lambda row: (row[5], row[6]))
    for *_, key, reserved in taken:
        if reserved:
            ledger.charge(transaction, key)
    return [
        Claim(thread=ThreadId(id), epoch=epoch, head=head, lease_until=until, agent=agent)
        for id, epoch, head, until, agent, *_ in taken
    ]


def set_back(transaction: Transaction, clock: tuple[float, float]) -> None:
    """The clock was at the second time and is now at the first: what was due then stays due."""
    transaction.execute(_SET_BACK, clock)


def renew(transaction: Transaction, renewal: tuple[str, Sequence[ThreadId], float]) -> Sequence[ThreadId]:
    owner, threads, lease_until = renewal
    sql = "UPDATE threads SET lease_until = ? WHERE id = ? AND owner = ?"
    return [id for id in threads if transaction.execute(sql, (lease_until, id, owner)).rowcount == 0]


def release(transaction: Transaction, given_up: tuple[Claim, float | None]) -> None:
    claim, runnable_at = given_up
    transaction.execute(_RELEASE, (runnable_at, transaction.now, claim.thread, claim.epoch))
    transaction.woke = True


def _advance(transaction: Transaction, key: int, changes: tuple[object, ...], listing: Listing | None) -> None:
    if listing is None:
        transaction.execute(_ADVANCE, (*changes, key))
    else:
        transaction.execute(_ADVANCE_LISTED, (*changes, *astuple(listing), key))


def _fenced(commit: Commit, epoch: int, head: Seq, owner: str | None) -> Fenced:
    if epoch != commit.epoch:
        return Fenced(f"thread {commit.thread} was claimed by {owner or 'another'} (epoch {epoch}, not {commit.epoch})")
    if owner is None:
        return Fenced(f"thread {commit.thread} was given up and not claimed again")
    return Fenced(f"thread {commit.thread} has {head} events, not {commit.expected}")


def _append(transaction: Transaction, key: int, head: Seq, events: Sequence[bytes]) -> None:
    if len(events) == 1:
        transaction.execute(_APPEND, (key, head, None, events[0]))
        return
    sizes = ",".join([str(len(event)) for event in events])
    transaction.execute(_APPEND, (key, head, sizes, b"".join(events)))


def _send(transaction: Transaction, target: ThreadId, entry: InboxEntry) -> int:
    """The position, or 0 when there is nobody to tell."""
    try:
        return admit(transaction, (target, entry))
    except (ThreadNotFound, Conflict):
        return 0


def _park(transaction: Transaction, key: int, park: Park, inbox_head: int) -> bool:
    if park.inbox_head != inbox_head:
        return False
    transaction.execute(_PARK, (park.until, key))
    transaction.woke |= park.until is not None
    return True
