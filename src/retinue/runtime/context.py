"""Requests from encoded wire turns: a step encodes only what is new.

A context belongs to one side of a thread and one model. It lives in a cache
bounded in bytes and can be rebuilt from the log at any time, to the same bytes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from retinue.ports.model import Fragment, Head, Model, Request
from retinue.runtime.perspective import Perspective, changes_of
from retinue.schema.events.steps import ContextCompacted, HistoryChanged, ModelAnswered
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import ThreadId
from retinue.schema.message import Turn
from retinue.schema.thread import SideName

_CHANGES_THE_PAST = (ContextCompacted, HistoryChanged)
BYTES_PER_TOKEN = 3.6
"""For estimates before a provider has counted; on the careful side for English and code."""
_TURN = 16
"""Tokens that a provider may put around a turn."""


_OVERHEAD = 12_000
"""Bytes that a context takes beside its fragments, measured on small ones."""


class Context:
    """The encoded conversation of one side for one model."""

    def __init__(self, model: Model, perspective: Perspective) -> None:
        self.model = model
        self._perspective = perspective
        self._fragments: list[Fragment] = []
        self._digest = blake2b(digest_size=16)
        self._head: tuple[Head, Fragment] | None = None
        self._open: tuple[Turn, Fragment] | None = None
        self._asked: tuple[Fragment, int, Fragment] | None = None
        self._counted: tuple[Fragment, int, Fragment, int] | None = None
        """The head, turns and last turn of the last request that was answered, and its tokens."""
        self.bytes = 0
        self.stale = False
        """The past was changed: rebuild from the log."""
        self.encoded = 0
        """Bytes ever encoded; what a step adds must not grow with the thread."""

    def feed(self, event: AnyEvent) -> None:
        for turn in self._perspective.feed(event):
            fragment = self._encode(turn)
            self._fragments.append(fragment)
            self._digest.update(fragment.data)
            self.bytes += len(fragment.data)

    def tell(self, event: AnyEvent) -> None:
        """Take in an event as it happens; one that changes the past makes this context stale."""
        if isinstance(event, _CHANGES_THE_PAST):
            self.stale = True
        else:
            if isinstance(event, ModelAnswered) and event.side == self._perspective.side and event.usage.input:
                self._counted = (*self._asked, event.usage.input) if self._asked else None
            self.feed(event)

    @property
    def turns(self) -> int:
        return self._perspective.count

    def request(self, head: Head, *, tail: str = "", message_id: str | None = None, stream: bool = True) -> Request:
        encoded, turns = self._encoded_head(head), self.request_turns()
        self._asked = (encoded, len(turns), turns[-1])
        return Request(head=encoded, turns=turns, tail=tail, message_id=message_id, stream=stream)

    def request_turns(self) -> list[Fragment]:
        """Every turn that a request sent now would hold."""
        return [*self._fragments, *(self._encode(turn) for turn in self._perspective.open_turns())]

    def chain(self, request: Request) -> str:
        """The hash of everything in the request but its tail; equal chains are equal requests."""
        digest = self._digest.copy()
        for fragment in request.turns[len(self._fragments) :]:
            digest.update(fragment.data)
        digest.update(request.head.data)
        return digest.hexdigest()

    def estimate(self, request: Request) -> int:
        """Tokens of input, before anybody has counted."""
        size = self.bytes + len(request.head.data) + len(request.turns[-1].data) + len(request.tail)
        return int(size / BYTES_PER_TOKEN) + 16

    def bound(self, request: Request) -> int:
        """Tokens of input that can't be exceeded: what the provider has counted of it, and the rest in bytes."""
        sizes = [len(turn.data) + _TURN for turn in request.turns]
        tail = len(request.tail.encode())
        if self._counted is not None:
            head, turns, last, tokens = self._counted
            if request.head is head and len(sizes) >= turns and request.turns[turns - 1] == last:
                return tokens + sum(sizes[turns:]) + tail
        return len(request.head.data) + sum(sizes) + tail

    def _encode(self, turn: Turn) -> Fragment:
        """The open turn is encoded when it is asked with and needed again when it was answered."""
        if self._open is not None and self._open[0] is turn:
            return self._open[1]
        fragment = self.model.encode_turn(turn)
        self.encoded += len(fragment.data)
        if turn.role == "user":
            self._open = (turn, fragment)
        return fragment

    def _encoded_head(self, head: Head) -> Fragment:
        if self._head is None or self._head[0] is not head:
            self._head = (head, self.model.encode_head(head))
            self.encoded += len(self._head[1].data)
        return self._head[1]


def build(model: Model, side: SideName, log: Sequence[AnyEvent]) -> Context:
    """The context after all of `log`."""
    compacted = next((e for e in reversed(log) if isinstance(e, ContextCompacted) and e.side == side), None)
    context = Context(model, Perspective(side, compacted=compacted, changed=changes_of(log, side)))
    for event in log:
        context.feed(event)
    return context


class ContextCache:
    """Contexts of the threads at work, by side; the thread that was least recently used goes first."""

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self._limit = limit
        self._size = 0
        self._held: OrderedDict[ThreadId, dict[SideName, Context]] = OrderedDict()

    def get(self, thread: ThreadId, side: SideName, model: Model) -> Context | None:
        sides = self._held.get(thread)
        context = sides.get(side) if sides is not None else None
        if context is None or context.model is not model or context.stale:
            return None
        self._held.move_to_end(thread)
        if self._size > self._limit:
            self._make_room()
        return context

    def put(self, thread: ThreadId, side: SideName, context: Context) -> None:
        sides = self._held.setdefault(thread, {})
        if replaced := sides.get(side):
            self._size -= replaced.bytes + _OVERHEAD
        sides[side] = context
        self._size += context.bytes + _OVERHEAD
        self._make_room()

    def feed(self, thread: ThreadId, event: AnyEvent) -> None:
        sides = self._held.get(thread)
        if sides is None:
            return
        for context in sides.values():
            before = context.bytes
            context.tell(event)
            self._size += context.bytes - before

    def drop(self, thread: ThreadId) -> None:
        for context in self._held.pop(thread, {}).values():
            self._size -= context.bytes + _OVERHEAD

    def _make_room(self) -> None:
        while self._size > self._limit and len(self._held) > 1:
            self.drop(next(iter(self._held)))
