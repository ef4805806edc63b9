"""Following threads: replay from any point, then live, without a gap or a double.

Events are read from the log, so nothing is missed however slow the reader is;
deltas come from memory when this process drives the thread.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from retinue.runtime.deps import Runtime
from retinue.runtime.live import Cursor, Piece
from retinue.schema.completion import Completion
from retinue.schema.errors import StoreUnavailable
from retinue.schema.events.children import ChildStarted
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.union import AnyEvent, decode
from retinue.schema.ids import Seq, ThreadId

_POLL = 1.0
"""Seconds after which a reader looks again even if nobody woke it, while another process drives."""
IDLE = 15.0
"""The same where this process drives: every commit wakes its readers, so a look is only caution."""
_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """A durable event; `path` names the agents from the root to the thread."""

    thread: ThreadId
    seq: Seq
    event: AnyEvent
    path: tuple[str, ...] = ()


Followed = Happened | Piece


@dataclass(slots=True)
class _Reader:
    thread: ThreadId
    after: Seq
    path: tuple[str, ...]
    cursor: Cursor


async def follow(items: AsyncGenerator[Followed | None]) -> AsyncGenerator[Followed]:
    """What `attend` yields, without its pauses."""
    async with aclosing(items):
        async for item in items:
            if item is not None:
                yield item


async def attend(
    runtime: Runtime,
    thread: ThreadId,
    *,
    after: Seq = 0,
    tree: bool = False,
    deltas: bool = True,
    drives: bool = False,
    idle: float = IDLE,
) -> AsyncGenerator[Followed | None]:
    """Yield what happened and what is being said, for a thread or its whole tree, until the app is closed.

    None comes whenever all was read, and again for every `idle` seconds without news.

    Args:
        drives: This process drives the threads, so nobody has to ask the store.
    """
    readers = {thread: _Reader(thread, after, (), Cursor())}
    wake = asyncio.Event()
    runtime.live.listen(thread, wake)
    try:
        while not runtime.live.closed:
            wake.clear()  # before reading, so that what is committed meanwhile is not slept over
            known = list(readers.values())
            for reader in known:
                async for item in _catch_up(runtime, reader, deltas=deltas, drives=drives):
                    yield item
                    if tree and isinstance(item, Happened) and isinstance(item.event, ChildStarted):
                        child = item.event.reference
                        if child not in readers:
                            readers[child] = _Reader(child, 0, (*reader.path, item.event.name), Cursor())
                            runtime.live.listen(child, wake)
            if len(readers) > len(known):
                continue
            yield None
            if drives:
                with suppress(TimeoutError):
                    async with asyncio.timeout(idle):
                        await wake.wait()
            else:
                await _woken(runtime, thread, readers, wake)
    finally:
        for name in readers:
            runtime.live.leave(name, wake)


async def _catch_up(runtime: Runtime, reader: _Reader, *, deltas: bool, drives: bool) -> AsyncGenerator[Followed]:
    more = not (drives and runtime.live.head(reader.thread) == reader.after)  # then only deltas have come
    while more:
        page = await runtime.store.events(reader.thread, after=reader.after, limit=_PAGE)
        more = len(page) == _PAGE
        for row in page:
            reader.after = row.seq
            yield Happened(thread=reader.thread, seq=row.seq, event=decode(row.data), path=reader.path)
    if deltas:
        for piece in reader.cursor.take(reader.thread, runtime.live.partial(reader.thread)):
            yield piece


async def _woken(runtime: Runtime, thread: ThreadId, readers: dict[ThreadId, _Reader], wake: asyncio.Event) -> None:
    """In this process a commit or a delta wakes us; of other processes only the store knows."""
    local = asyncio.ensure_future(wake.wait())
    foreign = asyncio.ensure_future(runtime.store.changed(thread, after=readers[thread].after, timeout=_POLL))
    try:
        await asyncio.wait((local, foreign), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in (local, foreign):
            future.cancel()
        await asyncio.gather(local, foreign, return_exceptions=True)


async def next_completion(runtime: Runtime, thread: ThreadId, after: Seq) -> Completion:
    async with aclosing(attend(runtime, thread, after=after, deltas=False)) as items:
        async for item in items:
            if isinstance(item, Happened) and isinstance(item.event, RunCompleted | RunFailed):
                return item.event.completion
    raise StoreUnavailable("the app was closed while the thread was waited for")
