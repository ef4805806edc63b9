"""One claimed thread at work: its state, what is staged for the next commit, and its clock.

`record` folds events at once and stages them; `flush` makes everything staged
durable in one commit. Whoever acts on the world flushes first. Bounding and ending
what is in flight is `retinue.runtime.flight`'s.
"""

import asyncio
from collections.abc import Callable
from functools import cached_property

from retinue.policy.calls import Authority
from retinue.policy.rules import Tier
from retinue.ports.memory import Grant
from retinue.ports.model import Candidate, Head, Model
from retinue.ports.store import (
    Claim,
    Commit,
    Committed,
    InboxEntry,
    Listing,
    NewThread,
    Park,
    QuestionRow,
    Reserve,
    Settle,
)
from retinue.ports.tool import Tool
from retinue.runtime import environment
from retinue.runtime.context import Context, build
from retinue.runtime.deps import Runtime
from retinue.runtime.flight import Flight
from retinue.runtime.project import apply, project
from retinue.runtime.state import State
from retinue.runtime.system_tools import SystemTool
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import GraceStarted, RunResumed, RunStarted, RunWaiting
from retinue.schema.events.steps import ModelAnswered
from retinue.schema.events.union import AnyEvent, decode, encode
from retinue.schema.ids import QuestionId, Seq, ThreadId
from retinue.schema.thread import SideName

_OF_QUESTIONS = (QuestionAsked, QuestionSettled)
_CARRIES_SPENT = (ModelAnswered, RunStarted, RunWaiting, RunResumed, GraceStarted)
_PAGE = 1000


class Staged:
    """What the next commit carries."""

    __slots__ = ("drained", "events", "ledger", "send", "spawn")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.spawn: list[NewThread] = []
        self.send: list[tuple[ThreadId, InboxEntry]] = []
        self.ledger: list[Reserve | Settle] = []
        self.drained: int | None = None

    @property
    def holds(self) -> bool:
        """Whether there is anything to commit; what is spawned comes with an event."""
        return bool(self.events or self.drained or self.ledger or self.send)


class Work:
    def __init__(
        self,
        runtime: Runtime,
        claim: Claim,
        state: State,
        log: list[AnyEvent],
        *,
        drained: int = 0,
        inbox_head: int = 0,
    ) -> None:
        self.runtime = runtime
        self.thread = claim.thread
        self.state = state
        self._log: list[AnyEvent] | None = log
        """Until the first context is made of it; whoever needs the log later reads it."""
        self.offers: dict[SideName, dict[str, Tool | SystemTool]] = {}
        """Tools by side, gathered once a run."""
        self.heads: dict[tuple[SideName, bool], Head] = {}
        """Heads by side, and whether it is the recovery turn's."""
        self.candidates: dict[SideName, tuple[Candidate, ...]] = {}
        self.tiers: tuple[Tier, ...] | None = None
        self.grants: tuple[Grant, ...] | None = None
        self.authority: Authority | None = None
        self.labels: dict[str, set[str]] = {}
        """What the results of a tool put on the thread, by the definition at work."""
        self.news = asyncio.Event()
        """Set when the inbox may hold more."""
        self.inbox_head = inbox_head
        self.drained = drained
        self._epoch = claim.epoch
        self._expected: Seq = claim.head
        self._staged = Staged()
        self._flushing = asyncio.Lock()
        """Held while calls in flight commit: those that run at once settle at once, one after another."""
        self._mark = runtime.clock.monotonic()
        self.flight = Flight()
        self.looping = False
        """The guard against repetition tripped and nobody can be asked."""

    # what happened

    def record(self, *events: AnyEvent) -> None:
        """Fold events and stage them. They are true for this process now and durable after `flush`."""
        state, contexts, staged = self.state, self.runtime.contexts, self._staged.events
        for event in events:
            apply(state, state.head + 1, event)
            contexts.feed(self.thread, event)
            staged.append(event)
            if self._log is not None:
                self._log.append(event)
            if isinstance(event, _CARRIES_SPENT):
                self._mark = self.runtime.clock.monotonic()
            if isinstance(event, RunStarted):
                self.regather()

    def forget(self) -> None:
        """Tools and candidates are gathered anew: a run or a segment starts."""
        self.regather()
        self.candidates.clear()
        self.labels.clear()
        self.tiers = self.authority = None

    def regather(self) -> None:
        """The tools there are may have changed: the next step is offered what there is now."""
        self.offers.clear()
        self.heads.clear()

    def spawn(self, thread: NewThread) -> None:
        self._staged.spawn.append(thread)

    def send(self, thread: ThreadId, entry: InboxEntry) -> None:
        self._staged.send.append((thread, entry))

    def ledger(self, *entries: Reserve | Settle) -> None:
        self._staged.ledger.extend(entries)

    def drain_to(self, position: int) -> None:
        self._staged.drained = self.drained = position

    @property
    def inbox_head(self) -> int:
        return self._inbox_head

    @inbox_head.setter
    def inbox_head(self, position: int) -> None:
        self._inbox_head = position
        self.news.set()

    @cached_property
    def files(self) -> str:
        """The folder of the thread's own files."""
        return str(self.runtime.files(self.thread))

    @cached_property
    def redact(self) -> Callable[[str], str]:
        return environment.redactor(self)

    @property
    def now(self) -> float:
        return self.runtime.clock.now()

    def spent(self) -> float:
        """Active seconds of the run, up to this moment."""
        run = self.state.run
        return 0.0 if run is None else run.spent + self.runtime.clock.monotonic() - self._mark

    # durability

    async def flush(self, park: Park | None = None) -> Committed | None:
        """Commit what is staged; with `park`, give the thread up if nothing new was said to it.

        Raises:
            Fenced: another owner has the thread; this work is void.
            BudgetExceeded: a staged reservation did not fit; nothing was written.
        """
        if park is None and not self._staged.holds:
            return None
        if not self.flight.on and not self._flushing.locked():
            return await self._commit(park)
        # What is in flight may be cancelled at any await; what the store was given must be heard of all the same.
        return await asyncio.shield(asyncio.ensure_future(self._commit_in_turn(park)))

    async def _commit_in_turn(self, park: Park | None) -> Committed | None:
        async with self._flushing:
            if park is None and not self._staged.holds:
                return None  # whoever was before us took it along
            return await self._commit(park)

    async def _commit(self, park: Park | None) -> Committed:
        staged, self._staged = self._staged, Staged()
        events: list[bytes] = []
        questions: dict[QuestionId, QuestionRow] = {}
        for event in staged.events:
            data = encode(event)
            events.append(data)
            if isinstance(event, _OF_QUESTIONS):
                is_open = isinstance(event, QuestionAsked)
                expires = event.expires if is_open else None
                questions[event.id] = QuestionRow(id=event.id, open=is_open, data=data, expires=expires)
        committed = await self.runtime.store.commit(
            Commit(
                thread=self.thread,
                epoch=self._epoch,
                expected=self._expected,
                events=tuple(events),
                drained=staged.drained,
                spawn=tuple(staged.spawn),
                send=tuple(staged.send),
                ledger=tuple(staged.ledger),
                questions=tuple(questions.values()),
                listing=self._listing(),
                park=park,
            )
        )
        self._expected = committed.head
        if committed.inbox_head > self._inbox_head:
            self.inbox_head = committed.inbox_head
        if staged.events:
            self.runtime.live.committed(self.thread, self.state, staged.events)
        return committed

    def withdraw(self, reloaded: State) -> None:
        """Forget what a refused commit carried; `reloaded` is the state without it."""
        self.state, self._log = reloaded, None
        self.runtime.contexts.drop(self.thread)

    def _listing(self) -> Listing:
        state = self.state
        return Listing(
            status=state.status,
            waiting_for=state.waiting.waiting_for if state.waiting else None,
            title=state.title,
            agent=state.pin.definition.id,
            steps=state.steps,
            tokens=state.usage.total,
            cost=state.cost,
            updated_at=self.now,
        )

    # the conversation

    async def context(self, side: SideName, model: Model) -> Context:
        """The conversation so far, encoded for a model; from the log, when the cache no longer has it."""
        if held := self.runtime.contexts.get(self.thread, side, model):
            return held
        log, self._log = self._log, None
        if log is None:
            await self.flush()
            log = [event for _, event in await read_log(self.runtime, self.thread)]
        context = build(model, side, log)
        self.runtime.contexts.put(self.thread, side, context)
        return context


async def read_log(runtime: Runtime, thread: ThreadId, after: Seq = 0) -> list[tuple[Seq, AnyEvent]]:
    log: list[tuple[Seq, AnyEvent]] = []
    while page := await runtime.store.events(thread, after=after, limit=_PAGE):
        log.extend((row.seq, decode(row.data)) for row in page)
        after = page[-1].seq
        if len(page) < _PAGE:
            break
    return log


async def load_work(runtime: Runtime, claim: Claim) -> Work:
    log = await read_log(runtime, claim.thread)
    row, state = await runtime.store.row(claim.thread), project(log)
    judging = await runtime.of(state.thread.project) if runtime.of else runtime
    events = [event for _, event in log]
    if row is None:
        return Work(judging, claim, state, events)
    return Work(judging, claim, state, events, drained=row.drained, inbox_head=row.inbox_head)
