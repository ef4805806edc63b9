"""The public face of the runtime: start threads, speak to them, follow them.

Everything here only admits and reads; driving is `run_thread`, which the
dispatcher calls with a claim. So every method works in any process.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from retinue.definition.inputs import check_inputs
from retinue.ports.store import Caps, Claim, InboxEntry, InboxKind, NewThread
from retinue.runtime import forking
from retinue.runtime.deps import Runtime
from retinue.runtime.drive import run_thread
from retinue.runtime.follow import IDLE, Followed, attend, follow, next_completion
from retinue.runtime.project import project
from retinue.runtime.state import State
from retinue.runtime.variables import VariablesStatus, variables_status
from retinue.runtime.work import Work, read_log
from retinue.schema import inbox
from retinue.schema.agent import Budget
from retinue.schema.completion import Completion
from retinue.schema.errors import Conflict, NotFound, StoreUnavailable, ThreadNotFound, UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.events.people import GrantScope, QuestionAsked
from retinue.schema.events.threads import Pin, ThreadStarted
from retinue.schema.events.union import AnyEvent, decode, encode
from retinue.schema.ids import DEFAULT_TENANT, QuestionId, Seq, Tenant, ThreadId
from retinue.schema.message import Part, Text
from retinue.schema.permission import Rule
from retinue.schema.thread import People, SideName

_LOOK_AGAIN = 0.05


class Engine:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.drives = True
        """Whether this process claims threads; waiting is cheaper when it does."""
        self._active: dict[ThreadId, Work] = {}

    # driving

    async def run(self, claim: Claim) -> None:
        """Drive a claimed thread until it parks."""
        try:
            await run_thread(self.runtime, claim, lambda work: self._active.__setitem__(claim.thread, work))
        except StoreUnavailable as error:
            self.runtime.live.fail(error, claim.thread)
            raise
        finally:
            self._active.pop(claim.thread, None)

    async def look(self, threads: Sequence[ThreadId]) -> None:
        """Others wrote to these threads: end what is in flight where they said stop."""
        for thread in threads:
            work = self._active.get(thread)
            if work is None or work.flight.abort_asked:
                continue
            entries = await self.runtime.store.inbox(thread, after=work.drained)
            work.inbox_head = max([work.inbox_head, *(e.position for e in entries)])
            if any(e.entry.kind in ("interrupt", "cancel", "terminate") for e in entries):
                work.flight.abort()

    # starting

    async def start(
        self,
        pin: Pin,
        message: str | Sequence[Part],
        *,
        inputs: Mapping[str, object] | None = None,
        id: ThreadId | None = None,
        tenant: Tenant = DEFAULT_TENANT,
        workspace: str = "",
        people: People = "wait",
        model: str | None = None,
        budget: Budget | None = None,
        max_depth: int | None = None,
        denies: Sequence[Rule] = (),
        env: Mapping[str, str] | None = None,
        title: str | None = None,
        message_id: str | None = None,
    ) -> ThreadId:
        """Create a thread with its first message. Durable, and runnable, when this returns.

        `denies` are rules of this session: nothing here or below may do what they deny.
        """
        definition, clock = pin.definition, self.runtime.clock
        values = check_inputs(definition.inputs, inputs or {}) if definition.inputs or inputs else {}
        thread = id or ThreadId(clock.new_id())
        caps = tighter(definition.budget, budget or Budget())
        started = ThreadStarted(
            at=clock.now(),
            thread=thread,
            pin=pin,
            workspace=workspace,
            people=people,
            tenant=tenant,
            project=self.runtime.project,
            model=model,
            title=title,
            sandbox="require" if definition.sandbox == "require" else self.runtime.sandbox,
            env={name: self.runtime.seal(value) for name, value in (env or {}).items()},
            max_depth=max_depth,
            ceiling=tuple(rule for rule in denies if rule.verdict == "deny"),
            budget=caps,
            capped=caps != Budget(),
            cost_capped=caps.cost is not None,
        )
        said = inbox.Message(parts=_parts(message), inputs=values)
        first = InboxEntry(
            id=message_id or clock.new_id(), kind="message", data=msgspec.json.encode(said), at=clock.now()
        )
        new = NewThread(
            id=thread,
            tenant=tenant,
            root=thread,
            agent=definition.id,
            created_at=clock.now(),
            events=(encode(started),),
            inbox=(first,),
            caps=Caps(cost=caps.cost, tokens=caps.tokens),
            title=title,
        )
        if not await self.runtime.store.create(new):
            raise Conflict(f"there is a thread {thread} already")
        return thread

    async def fork(
        self,
        thread: ThreadId,
        *,
        at: Seq | None = None,
        message: str | None = None,
        model: str | None = None,
        prompt: str | None = None,
        pin: Pin | None = None,
        id: ThreadId | None = None,
    ) -> ThreadId:
        """A new thread with the log of another up to `at`. Files of the workspace are not rewound."""
        log = await self.log(thread)
        new = forking.fork(self.runtime.clock, log, at=at, message=message, model=model, prompt=prompt, pin=pin, id=id)
        await self.runtime.store.create(new)
        return new.id

    # speaking

    async def send(
        self,
        thread: ThreadId,
        message: str | Sequence[Part],
        *,
        id: str | None = None,
        side: SideName = "b",
        silent: bool = False,
        files: Sequence[FileAttached] = (),
    ) -> str:
        """Queue a message; returns its id. It joins the run under way or starts one."""
        said = inbox.Message(parts=_parts(message), side=side, silent=silent, files=tuple(files))
        return await self._admit(thread, "message", msgspec.json.encode(said), id)

    async def interrupt(self, thread: ThreadId, by: str = "user") -> None:
        await self._control(thread, "interrupt", inbox.Control(by=by))

    async def resume(self, thread: ThreadId) -> None:
        await self._control(thread, "resume", inbox.Control())

    async def cancel(self, thread: ThreadId, reason: str = "", by: str = "user") -> None:
        await self._control(thread, "cancel", inbox.Control(by=by, reason=reason))

    async def terminate(self, thread: ThreadId, reason: str = "", by: str = "user") -> None:
        await self._control(thread, "terminate", inbox.Control(by=by, reason=reason))

    async def answer(
        self,
        question: QuestionId,
        answer: object,
        *,
        tenant: Tenant | None = None,
        scope: GrantScope | None = None,
        pattern: str | None = None,
        by: str = "user",
        files: Sequence[FileAttached] = (),
    ) -> ThreadId:
        """Settle an open question, from any process. Returns the thread that asked.

        Raises:
            NotFound: there is no such open question.
            UsageError: the answer is not one of the choices, or has the wrong shape.
        """
        found = await self.runtime.store.question(tenant, question)
        if found is None or not found[1].open:
            raise NotFound(f"there is no open question {question}", hint="`retinue answer` lists those that are open")
        thread, row = found
        asked = decode(row.data)
        if isinstance(asked, QuestionAsked):
            answer = fitting(asked, answer, scope)
        given = inbox.Answer(question=question, answer=answer, scope=scope, pattern=pattern, by=by, files=tuple(files))
        await self._admit(thread, "answer", msgspec.json.encode(given), f"answer:{question}")
        return thread

    async def variables(self, thread: ThreadId, request: str) -> VariablesStatus:
        """Which scoped variables a deferred child needs, by name.

        Raises:
            NotFound: the thread never asked for them.
            Gone: they were given already, or nobody gave them in time.
        """
        return variables_status(await self.state(thread), await self.log(thread), request, self.runtime.clock.now())

    async def provide(self, thread: ThreadId, request: str, values: Mapping[str, str]) -> VariablesStatus:
        """Give values, sealed before they are stored; with the last one the child starts."""
        status = await self.variables(thread, request)
        if unknown := [name for name in values if name not in status.required]:
            raise UsageError(f"{', '.join(unknown)} was not asked for; wanted: {', '.join(status.required)}")
        sealed = {name: self.runtime.seal(value) for name, value in values.items()}
        data = msgspec.json.encode(inbox.Variables(request=request, values=sealed))
        await self._admit(thread, "variables", data, None)
        return VariablesStatus(required=status.required, missing=tuple(n for n in status.missing if n not in values))

    # reading

    async def state(self, thread: ThreadId) -> State:
        return project(await self.log(thread))

    async def wait(self, thread: ThreadId, *, after: Seq = 0) -> Completion:
        """The thread's next completion after `after`, whoever drives it.

        Raises:
            StoreUnavailable: it can't be written any more, or the app was closed.
        """
        if not self.drives:
            return await next_completion(self.runtime, thread, after)
        expected = self.runtime.live.expect(thread)
        try:
            while (rests := await self._rests(thread)) is None:
                done, _ = await asyncio.wait((expected,), timeout=_LOOK_AGAIN)
                if done:
                    break
            return await next_completion(self.runtime, thread, after) if rests else await expected
        finally:
            expected.cancel()

    def follow(
        self, thread: ThreadId, *, after: Seq = 0, tree: bool = False, deltas: bool = True
    ) -> AsyncGenerator[Followed]:
        """Events from `after` on and deltas as they come; ends only when the app is closed."""
        return follow(self.attend(thread, after=after, tree=tree, deltas=deltas))

    def attend(
        self, thread: ThreadId, *, after: Seq = 0, tree: bool = False, deltas: bool = True, idle: float = IDLE
    ) -> AsyncGenerator[Followed | None]:
        """`follow`, with None when all was read and for every `idle` seconds without news."""
        return attend(self.runtime, thread, after=after, tree=tree, deltas=deltas, drives=self.drives, idle=idle)

    async def _rests(self, thread: ThreadId) -> bool | None:
        """Whether the last run is over; None when it is, and what was said since may or may not start another."""
        row = await self.runtime.store.row(thread)
        if row is None:
            raise ThreadNotFound(f"there is no thread {thread}")
        over = row.listing.status in ("completed", "failed", "terminated")
        return None if over and row.inbox_head > row.drained else over

    async def log(self, thread: ThreadId) -> list[tuple[Seq, AnyEvent]]:
        log = await read_log(self.runtime, thread)
        if not log:
            raise ThreadNotFound(f"there is no thread {thread}", hint="`retinue threads list` shows them")
        return log

    async def _control(self, thread: ThreadId, kind: InboxKind, control: inbox.Control) -> None:
        await self._admit(thread, kind, msgspec.json.encode(control), None)
        work = self._active.get(thread)
        if work is not None and kind != "resume":
            work.flight.abort()

    async def _admit(self, thread: ThreadId, kind: InboxKind, data: bytes, id: str | None) -> str:
        clock = self.runtime.clock
        entry = InboxEntry(id=id or clock.new_id(), kind=kind, data=data, at=clock.now())
        position = await self.runtime.store.admit(thread, entry)
        if work := self._active.get(thread):
            work.inbox_head = max(work.inbox_head, position)
        return entry.id


def tighter(one: Budget, other: Budget) -> Budget:
    """Of two budgets the smaller figure of each."""
    costs = [c for c in (one.cost, other.cost) if c is not None]
    tokens = [t for t in (one.tokens, other.tokens) if t is not None]
    return Budget(cost=min(costs, default=None), tokens=min(tokens, default=None))


def fitting(asked: QuestionAsked, answer: object, scope: GrantScope | None) -> object:
    """The answer in the shape that the question wants."""
    match asked.kind:
        case "choice":
            if answer not in asked.choices:
                raise UsageError(f"{answer!r} is not one of the choices: {', '.join(asked.choices)}")
            return answer
        case "approval" | "loop":
            if isinstance(answer, str) and answer.strip().lower() in ("y", "yes", "true", "approve", "approved"):
                return True
            if isinstance(answer, str) and answer.strip().lower() in ("n", "no", "false", "deny", "denied", "reject"):
                return False
            if isinstance(answer, bool):
                return answer
            raise UsageError(f"{answer!r} is neither yes nor no")
        case "permission":
            if scope is None:
                raise UsageError("say how far the approval goes: once, thread, pattern, always, or deny")
            return answer
        case _:
            return answer


def _parts(message: str | Sequence[Part]) -> tuple[Part, ...]:
    return (Text(text=message),) if isinstance(message, str) else tuple(message)
