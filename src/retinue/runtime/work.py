"""One claimed thread at work: its state, what is staged for the next commit, and its clock.

`record` folds events at once and stages them; `flush` makes everything staged
durable in one commit. Whoever acts on the world flushes first.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType

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
from retinue.runtime.context import Context, build
from retinue.runtime.deps import Runtime
from retinue.runtime.project import apply, project
from retinue.runtime.state import State
from retinue.runtime.system_tools import SystemTool
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import GraceStarted, RunCompleted, RunFailed, RunResumed, RunStarted, RunWaiting
from retinue.schema.events.steps import ModelAnswered
from retinue.schema.events.union import AnyEvent, decode, encode
from retinue.schema.ids import QuestionId, Seq, ThreadId
from retinue.schema.thread import SideName

_CARRIES_SPENT = (ModelAnswered, RunWaiting, RunResumed, GraceStarted)
_PAGE = 1000


class Aborted(Exception):
    """Somebody interrupted, cancelled or terminated while work was in flight."""


@dataclass(slots=True)
class Staged:
    """What the next commit carries beside events."""

    events: list[AnyEvent] = field(default_factory=list[AnyEvent])
    spawn: list[NewThread] = field(default_factory=list[NewThread])
    send: list[tuple[ThreadId, InboxEntry]] = field(default_factory=list[tuple[ThreadId, InboxEntry]])
    ledger: list[Reserve | Settle] = field(default_factory=list[Reserve | Settle])
    drained: int | None = None

    def __bool__(self) -> bool:
        return bool(self.events or self.drained or self.ledger or self.send)


class Work:
    def __init__(self, runtime: Runtime, claim: Claim, state: State, drained: int) -> None:
        self.runtime = runtime
        self.thread = claim.thread
        self.state = state
        self.offers: dict[SideName, dict[str, Tool | SystemTool]] = {}
        """Tools by side, gathered once a run."""
        self.heads: dict[tuple[SideName, bool], Head] = {}
        """Heads by side, and whether it is the recovery turn's."""
        self.candidates: dict[SideName, tuple[Candidate, ...]] = {}
        self.tiers: tuple[Tier, ...] | None = None
        self.grants: tuple[Grant, ...] | None = None
        self.authority: Authority | None = None
        self.news = asyncio.Event()
        """Set when the inbox may hold more."""
        self.inbox_head = drained
        self.drained = drained
        self._epoch = claim.epoch
        self._expected: Seq = claim.head
        self._staged = Staged()
        self._flushing = asyncio.Lock()
        """Calls that run at once settle at once; their commits go one after another."""
        self._mark = runtime.clock.monotonic()
        self.deadline: asyncio.Timeout | None = None
        self.abort_asked = False
        self.looping = False
        """The guard against repetition tripped and nobody can be asked."""

    # what happened

    def record(self, *events: AnyEvent) -> None:
        """Fold events and stage them. They are true for this process now and durable after `flush`."""
        for event in events:
            apply(self.state, self.state.head + 1, event)
            self.runtime.contexts.feed(self.thread, event)
            self._staged.events.append(event)
            if isinstance(event, _CARRIES_SPENT):
                self._mark = self.runtime.clock.monotonic()
            elif isinstance(event, RunStarted):
                self._mark = self.runtime.clock.monotonic()
                self.forget()

    def forget(self) -> None:
        """Tools and candidates are gathered anew: a run or a segment starts."""
        self.offers.clear()
        self.heads.clear()
        self.candidates.clear()
        self.tiers = self.authority = None

    def regather(self) -> None:
        """The tools there are have changed: the next step is offered what there is now."""
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
        if park is None and not self._staged:
            return None
        async with self._flushing:
            return await self._commit(park)

    async def _commit(self, park: Park | None) -> Committed | None:
        staged, self._staged = self._staged, Staged()
        committed = await self.runtime.store.commit(
            Commit(
                thread=self.thread,
                epoch=self._epoch,
                expected=self._expected,
                events=tuple(encode(e) for e in staged.events),
                drained=staged.drained,
                spawn=tuple(staged.spawn),
                send=tuple(staged.send),
                ledger=tuple(staged.ledger),
                questions=self._question_rows(staged.events),
                listing=self._listing(),
                park=park,
            )
        )
        self._expected = committed.head
        self.inbox_head = max(self.inbox_head, committed.inbox_head)
        if staged.events:
            self._publish(staged.events)
        return committed

    def _publish(self, events: list[AnyEvent]) -> None:
        self.runtime.live.committed(self.thread, self.state, events)
        for event in events:
            if isinstance(event, RunCompleted | RunFailed):
                self.runtime.live.completed(self.thread, event.completion)

    def withdraw(self, reloaded: State) -> None:
        """Forget what a refused commit carried; `reloaded` is the state without it."""
        self.state = reloaded
        self.runtime.contexts.drop(self.thread)

    def _question_rows(self, events: list[AnyEvent]) -> tuple[QuestionRow, ...]:
        rows: dict[QuestionId, QuestionRow] = {}
        for event in events:
            if isinstance(event, QuestionAsked):
                rows[event.id] = QuestionRow(id=event.id, open=True, data=encode(event), expires=event.expires)
            elif isinstance(event, QuestionSettled):
                rows[event.id] = QuestionRow(id=event.id, open=False, data=encode(event))
        return tuple(rows.values())

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

    # work in flight

    def abortable(self, seconds: float) -> "_Abortable":
        """Bound what happens inside by time, and let `abort` end it at once.

        Raises:
            TimeoutError: the time is up.
            Aborted: `abort` was called.
        """
        return _Abortable(self, seconds)

    @contextmanager
    def paused(self) -> Generator[None]:
        """The bound of `abortable` stands still: what is in flight waits for a person."""
        deadline, loop = self.deadline, asyncio.get_running_loop()
        end = deadline.when() if deadline else None
        if deadline is None or end is None:
            yield
            return
        left = end - loop.time()
        deadline.reschedule(None)
        try:
            yield
        finally:
            if not self.abort_asked:
                with suppress(RuntimeError):  # it has ended otherwise
                    deadline.reschedule(loop.time() + left)

    def abort(self) -> None:
        """Called from outside the task: end what is in flight; the loop then reads the inbox."""
        self.abort_asked = True
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time())

    # the conversation

    async def context(self, side: SideName, model: Model) -> Context:
        cache = self.runtime.contexts
        if held := cache.get(self.thread, side, model):
            return held
        await self.flush()
        context = build(model, side, [event for _, event in await read_log(self.runtime, self.thread)])
        cache.put(self.thread, side, context)
        return context


class _Abortable:
    """A class, because a generator would cost a step twice what it does."""

    def __init__(self, work: Work, seconds: float) -> None:
        self._work = work
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        if self._work.abort_asked:
            raise Aborted
        self._work.deadline = await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._work.deadline = None
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            if self._work.abort_asked:
                raise Aborted from None
            raise


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
    return Work(judging, claim, state, row.drained if row else 0)
