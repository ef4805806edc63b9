"""Text as it comes: deltas in memory, never in the log.

The text of the request under way is kept once per thread; readers take what they
have not seen yet, so a slow one gets larger pieces and never slows the run.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from retinue.runtime.state import State
from retinue.schema.completion import Completion
from retinue.schema.errors import StoreUnavailable
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import Seq, ThreadId

_ENDS = (RunCompleted, RunFailed)
_MOST_PRINTED = 64 * 1024
DeltaKind = Literal["text", "thinking", "call", "output"]
Tap = Callable[[State, Sequence[AnyEvent]], None]
"""Told of every commit of this process, when it is on disk. It must not raise, and must not change the state."""


class Partial:
    """What one request has said so far, or what the calls of one answer have printed.

    `event` is the `model.asked` or `model.answered` it belongs to. Of what calls print
    only the last part is kept: it is in their outcomes, as far as anybody may see it.
    """

    __slots__ = ("_printed", "_sizes", "attempt", "event", "first", "pieces")

    def __init__(self, event: Seq, attempt: int) -> None:
        self.event = event
        self.attempt = attempt
        self.pieces: list[tuple[DeltaKind, int, str]] = []
        """Kind, offset and text."""
        self.first = 0
        """How many pieces were dropped before these."""
        self._sizes: dict[DeltaKind, int] = {}
        self._printed = 0

    def add(self, kind: DeltaKind, text: str) -> None:
        offset = self._sizes.get(kind, 0)
        self._sizes[kind] = offset + len(text)
        if kind == "output":
            offset, text = offset + len(text[:-_MOST_PRINTED]), text[-_MOST_PRINTED:]
            self._printed += len(text)
        self.pieces.append((kind, offset, text))
        while self._printed > _MOST_PRINTED:
            self._printed -= len(self.pieces.pop(0)[2])
            self.first += 1


@dataclass(frozen=True, slots=True)
class Piece:
    """`offset` counts the characters of this kind before it, so that a reader can tell a gap."""

    thread: ThreadId
    event: Seq
    attempt: int
    kind: DeltaKind
    offset: int
    text: str


class Live:
    def __init__(self) -> None:
        self.taps: list[Tap] = []
        self.closed = False
        self._partial: dict[ThreadId, Partial] = {}
        self._heads: dict[ThreadId, Seq] = {}
        self._readers: defaultdict[ThreadId, set[asyncio.Event]] = defaultdict(set)
        self._expected: defaultdict[ThreadId, list[asyncio.Future[Completion]]] = defaultdict(list)

    def begin(self, thread: ThreadId, event: Seq, attempt: int) -> None:
        self._partial[thread] = Partial(event, attempt)

    def add(self, thread: ThreadId, kind: DeltaKind, text: str) -> None:
        partial = self._partial.get(thread)
        if partial is None or not text:
            return
        partial.add(kind, text)
        self._wake(thread)

    def end(self, thread: ThreadId) -> None:
        self._partial.pop(thread, None)

    def committed(self, thread: ThreadId, state: State, events: Sequence[AnyEvent]) -> None:
        """Events of the thread are on disk: readers look at the log."""
        if thread in self._readers:
            self._heads[thread] = state.head
            self._wake(thread)
        for tap in self.taps:
            tap(state, events)
        if thread in self._expected:
            for event in events:
                if isinstance(event, _ENDS):
                    self._completed(thread, event.completion)

    def close(self) -> None:
        """Nothing more comes: who waits for a completion is told so, and readers end."""
        self.closed = True
        for thread in tuple(self._expected):
            self.fail(_closed(), thread)
        for thread in self._readers:
            self._wake(thread)

    def fail(self, error: Exception, thread: ThreadId) -> None:
        """Whoever waits for the thread's completion is told why it does not come."""
        for future in self._expected.pop(thread, ()):
            if not future.done():
                future.set_exception(error)

    def expect(self, thread: ThreadId) -> "asyncio.Future[Completion]":
        """The next completion of a thread that this process drives. Cancel it when you stop waiting."""
        if self.closed:
            raise _closed()
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._expected[thread].append(future)
        future.add_done_callback(lambda done: self._unexpect(thread, done))
        return future

    def _unexpect(self, thread: ThreadId, future: "asyncio.Future[Completion]") -> None:
        """Who gave up waiting leaves nothing behind."""
        waiting = self._expected.get(thread, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._expected.pop(thread, None)

    def _completed(self, thread: ThreadId, completion: Completion) -> None:
        for future in self._expected.pop(thread, ()):
            if not future.done():
                future.set_result(completion)

    def _wake(self, thread: ThreadId) -> None:
        for reader in self._readers.get(thread, ()):
            reader.set()

    def head(self, thread: ThreadId) -> Seq | None:
        """The last event that this process has committed since somebody reads along."""
        return self._heads.get(thread)

    def partial(self, thread: ThreadId) -> Partial | None:
        return self._partial.get(thread)

    def listen(self, thread: ThreadId, wake: asyncio.Event) -> None:
        """`wake` is set whenever something comes; one reader may listen to several threads."""
        self._readers[thread].add(wake)

    def leave(self, thread: ThreadId, wake: asyncio.Event) -> None:
        if readers := self._readers.get(thread):
            readers.discard(wake)
            if not readers:
                del self._readers[thread]
                self._heads.pop(thread, None)


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the app was closed while the thread was at work; it goes on when one is open again")


class Cursor:
    """Where one reader stands in a thread's partial text."""

    def __init__(self) -> None:
        self._of: tuple[Seq, int] = (0, 0)
        self._index = 0

    def take(self, thread: ThreadId, partial: Partial | None) -> list[Piece]:
        """What came since the last look, neighbours of one kind joined."""
        if partial is None:
            return []
        if self._of != (partial.event, partial.attempt):
            self._of, self._index = (partial.event, partial.attempt), 0
        fresh = partial.pieces[max(self._index - partial.first, 0) :]
        self._index = partial.first + len(partial.pieces)
        joined: list[Piece] = []
        start = 0
        while start < len(fresh):
            (kind, offset, _), end = fresh[start], start + 1
            while end < len(fresh) and fresh[end][0] == kind:
                end += 1
            text = "".join([text for _, _, text in fresh[start:end]])
            joined.append(Piece(thread, partial.event, partial.attempt, kind, offset, text))
            start = end
        return joined
