"""Threads as server-sent events: replay from any point, then live, until the reader goes.

An event of the log has the id `thread:seq`; in the stream of a tree the places in the
other threads follow it, named shortly, so that one `Last-Event-ID` says where a reader
stands in all of them. Deltas have no id: who comes again gets the text so far.

Nothing is queued for a reader. A slow one holds up nobody but itself: it is sent what
the log has when it is ready for more.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import aclosing, suppress

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from retinue.app.views import shown
from retinue.runtime.follow import Happened
from retinue.runtime.live import DeltaKind, Piece
from retinue.schema.errors import UsageError
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import Seq, ThreadId
from retinue.web.keys import Principal
from retinue.web.served import Served

log = logging.getLogger("retinue.web")
MEDIA_TYPE = "text/event-stream"
RETRY_MS = 1000
PLACES = r"^[0-9a-f:,-]*$"
LONGEST = 16_000
"""Characters of a place; enough for a tree of a thousand threads."""
_PLACE = re.compile(r"([0-9a-f-]{13})[0-9a-f-]*:(\d{1,15})")
_FAREWELL_SECONDS = 1.0
_BATCH = 64 * 1024
"""Bytes of a log that are sent at once."""

Places = Mapping[str, Seq]
"""The first 13 characters of a thread's id → what was seen of it."""


class EventFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a durable event; its SSE type is the event's own."""

    thread: ThreadId
    seq: Seq
    path: tuple[str, ...]
    """The names of the children that lead from the followed thread to this one."""
    event: AnyEvent


class DeltaFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `delta`: text of the request that the event `event` (a `model.asked`) announced."""

    thread: ThreadId
    event: Seq
    attempt: int
    kind: DeltaKind
    offset: int
    """Characters of this kind before it. Text of an earlier attempt is void."""
    text: str


class ReconnectFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `reconnect`, the last event of a stream that the server ends."""

    why: str
    after: str
    """The last id that was sent; give it as `Last-Event-ID`."""


def places(text: str, thread: ThreadId) -> dict[str, Seq]:
    """Where a reader stands: a number is a place in the thread itself, else ids as we sent them.

    Raises:
        UsageError: it is neither.
    """
    text = text.strip()
    if not text:
        return {}
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return {_short(thread): int(text)}
    found = [_PLACE.fullmatch(one) for one in text.split(",")]
    places = {one[1]: int(one[2]) for one in found if one is not None}
    if len(places) != len(found):
        raise UsageError(f"{text[:80]!r} is no place in a log", hint="give a number, or the last event's id")
    return places


def _text(thread: ThreadId, seq: Seq, others: Places) -> str:
    return f"{thread}:{seq}" + "".join(f",{name}:{at}" for name, at in others.items() if name != _short(thread))


def _short(thread: ThreadId) -> str:
    return thread[:13]


class EventStream(Response):
    """The stream of a thread, or of its tree.

    Args:
        after: Where the reader stands.
        until_done: End when the run that is under way has ended.
        live: False: end when everything that is in the log was sent.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        served: Served,
        principal: Principal,
        thread: ThreadId,
        *,
        after: Places,
        tree: bool = False,
        until_done: bool = False,
        live: bool = True,
    ) -> None:
        super().__init__(None, 200, {"X-Accel-Buffering": "no"}, MEDIA_TYPE)
        self._served = served
        self._principal = principal
        self._thread = thread
        self._tree = tree
        self._until_done = until_done
        self._live = live
        self._places = dict(after)
        self._last = ""
        self._done = False
        self._pump: asyncio.Task[str] | None = None

    def end(self) -> None:
        """The server closes: stop here, and say how to go on."""
        if self._pump is not None:
            self._pump.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._pump = asyncio.create_task(self._run(send))
        gone = asyncio.create_task(_gone(receive))
        self._served.streams.add(self)
        try:
            await asyncio.wait((self._pump, gone), timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._served.streams.discard(self)
            left = gone.done()
            gone.cancel()
            self._pump.cancel()
            await asyncio.gather(gone, self._pump, return_exceptions=True)
        if not left:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await self._farewell(send)

    @property
    def _seconds(self) -> float:
        return 0.0 if self._served.closing.is_set() else self._served.settings.stream_seconds

    async def _farewell(self, send: Send) -> None:
        assert self._pump is not None
        error = None if self._pump.cancelled() else self._pump.exception()
        if error is not None:
            log.error("a stream of %s failed", self._thread, exc_info=error)
        why = self._pump.result() if not self._pump.cancelled() and error is None else "the server ends this stream"
        last = b""
        if why:
            frame = ReconnectFrame(why=why, after=self._last)
            last = b"retry: %d\nevent: reconnect\ndata: %b\n\n" % (RETRY_MS, msgspec.json.encode(frame))
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _run(self, send: Send) -> str:
        """Send until there is nothing more to send; why the reader should come again, or nothing."""
        engine, beat = self._served.app.engine, self._served.settings.heartbeat
        after = 0 if self._tree else self._places.get(_short(self._thread), 0)
        items = engine.attend(self._thread, after=after, tree=self._tree, deltas=self._live, idle=beat)
        clock = engine.runtime.clock.monotonic
        quiet_since = clock() - beat  # so that the first pause tells a reader that the stream stands
        batch, place = b"", ""
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Happened):
                    if item.seq <= self._places.get(_short(item.thread), 0):
                        continue
                    place = self._arrive(item)
                if item is not None:
                    batch += _frame(item, place)
                    if len(batch) < _BATCH:
                        continue
                if not batch and self._live and not self._done:
                    if clock() - quiet_since < beat:
                        continue
                    if not await self._served.keyring.still_good(self._principal.key):
                        return "the key is no longer good"
                    batch = b": \n\n"
                if batch:
                    await send({"type": "http.response.body", "body": batch, "more_body": True})
                    batch, quiet_since, self._last = b"", clock(), place
                if item is None and (self._done or not self._live):
                    return ""
        return ""

    def _arrive(self, item: Happened) -> str:
        """Where a reader of the event stands; whether it was the last that they wait for."""
        self._places[_short(item.thread)] = item.seq
        if self._until_done and item.thread == self._thread and isinstance(item.event, RunCompleted | RunFailed):
            self._done = True  # of children, more may follow in the log
        return _text(item.thread, item.seq, self._places if self._tree else {})


def _frame(item: Happened | Piece, place: str) -> bytes:
    if isinstance(item, Piece):
        delta = DeltaFrame(
            thread=item.thread,
            event=item.event,
            attempt=item.attempt,
            kind=item.kind,
            offset=item.offset,
            text=item.text,
        )
        return b"event: delta\ndata: %b\n\n" % msgspec.json.encode(delta)
    frame = EventFrame(thread=item.thread, seq=item.seq, path=item.path, event=shown(item.event))
    name = str(type(item.event).__struct_config__.tag)
    return f"id: {place}\nevent: {name}\ndata: ".encode() + msgspec.json.encode(frame) + b"\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
