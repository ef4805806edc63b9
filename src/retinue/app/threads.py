"""Threads as surfaces reach them: by the beginning of an id, and whole trees at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from retinue.app import views
from retinue.ports.store import Store, ThreadRow
from retinue.runtime.project import project
from retinue.runtime.state import State
from retinue.schema.errors import Conflict, ThreadNotFound, UsageError
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.union import AnyEvent, decode
from retinue.schema.ids import DEFAULT_TENANT, Seq, Tenant, ThreadId

if TYPE_CHECKING:
    from retinue.runtime.engine import Engine

_PAGE = 1000
_MOST = 100_000


async def find_thread(store: Store, prefix: str, tenant: Tenant | None = DEFAULT_TENANT) -> ThreadId:
    """The one thread whose id starts with `prefix`.

    Raises:
        ThreadNotFound: there is none.
        UsageError: there are several.
    """
    found = await store.find(tenant, prefix.lower()) if prefix else ()
    if not found:
        raise ThreadNotFound(f"there is no thread {prefix!r}", hint="`retinue threads list` shows them")
    if len(found) > 1 and prefix not in found:
        raise UsageError(f"{prefix!r} may be {' or '.join(found)}", hint="write more of the id")
    return found[0]


async def read_log(store: Store, thread: ThreadId) -> list[tuple[Seq, AnyEvent]]:
    log: list[tuple[Seq, AnyEvent]] = []
    while page := await store.events(thread, after=log[-1][0] if log else 0, limit=_PAGE):
        log += [(row.seq, decode(row.data)) for row in page]
    return log


async def row_of(store: Store, thread: ThreadId) -> ThreadRow:
    row = await store.row(thread)
    if row is None:
        raise ThreadNotFound(f"there is no thread {thread}", hint="`retinue threads list` shows them")
    return row


async def taken_in(
    store: Store, thread: ThreadId, seconds: float, stop: Callable[[], Awaitable[object]] | None = None
) -> ThreadRow:
    """Wait until what was said to a thread is in its log, or the time is up; returns how it stands then.

    Args:
        stop: Said again to a thread that goes on all the same: its run had not begun, so there was nothing to stop.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        row = await row_of(store, thread)
        if row.inbox_head == row.drained:
            if stop is None or row.listing.status not in ("idle", "running", "waiting"):
                return row
            await stop()
        if asyncio.get_running_loop().time() > deadline:
            return row
        await store.changed(thread, after=row.head, timeout=0.1)


async def rows_of_tree(store: Store, thread: ThreadId) -> Sequence[ThreadRow]:
    """The thread and everything below it."""
    top = await row_of(store, thread)
    below: dict[ThreadId | None, list[ThreadRow]] = {}
    for row in await store.rows(None, root=top.root, limit=_MOST):
        below.setdefault(row.parent, []).append(row)
    kept = [top]
    for row in kept:
        kept += below.get(row.id, ())
    return kept


async def tree_of(store: Store, thread: ThreadId, *, now: float) -> views.Node:
    rows = await rows_of_tree(store, thread)
    parents = {thread, *(row.parent for row in rows if row.parent)} & {row.id for row in rows}
    states = {id: project(await read_log(store, id)) for id in parents}
    root = rows[0].root
    rows_asked = [(id, decode(row.data)) for id, row in await store.questions(None, root=root)]
    asked = [(id, event) for id, event in rows_asked if isinstance(event, QuestionAsked)]
    return views.tree(thread, rows, await store.accounts(root), states, asked, now=now)


async def resume_tree(engine: "Engine", thread: ThreadId) -> None:
    """Let everything that was interrupted go on.

    Raises:
        Conflict: nothing of it is unfinished.
    """
    rows = await rows_of_tree(engine.runtime.store, thread)
    interrupted = [row.id for row in rows if row.listing.status == "interrupted"]
    unread = any(row.inbox_head > row.drained for row in rows)
    if not interrupted and not unread and rows[0].listing.status in ("completed", "failed", "terminated"):
        status = rows[0].listing.status
        hint = "`retinue threads message` starts its next run"
        raise Conflict(f"thread {thread} is {status}; there is nothing to resume", hint=hint)
    for id in interrupted:
        await engine.resume(id)


def plan_message(state: State, message: str) -> str:
    """A message that hands over the plan a thread ended with.

    Raises:
        Conflict: it has no plan.
    """
    completion = state.run.completion if state.run else None
    if completion is None or completion.status == "FAILED" or isinstance(completion.result, str):
        raise Conflict(f"thread {state.thread.thread} has no plan", hint="give a completed thread of a planning agent")
    plan = msgspec.json.format(msgspec.json.encode(completion.result), indent=2).decode()
    return "\n\n".join(filter(None, [message, f"Carry out this plan:\n\n```json\n{plan}\n```"]))
