"""A thread in the foreground: shown as it runs, its questions asked here, Ctrl-C once interrupts and twice quits."""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from retinue.app import questions
from retinue.app.questions import OpenQuestion, described
from retinue.app.retinue import Retinue
from retinue.app.threads import row_of, rows_of_tree
from retinue.app.views import event_json
from retinue.cli.ask import parse_reply, read_line, show_question, show_waiting, wanted
from retinue.cli.drive import ensure_driver
from retinue.cli.output import print_json, print_json_line
from retinue.cli.render import View
from retinue.cli.status import Screen
from retinue.runtime.follow import Followed, Happened
from retinue.schema.completion import Completion, Status
from retinue.schema.errors import RetinueError
from retinue.schema.events.children import ChildStarted, VariablesProvided, VariablesRequested
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import (
    MessageReceived,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunStarted,
    RunWaiting,
)
from retinue.schema.events.threads import ThreadForked, ThreadStarted, ThreadTerminated
from retinue.schema.ids import QuestionId, Seq, ThreadId

CODES: Mapping[Status, int] = {"SUCCESS": 0, "PARTIAL": 3, "FAILED": 4}
WAITS, INTERRUPTED = 5, 130
_TICK = 0.1
_STUCK = frozenset({"question", "child", "variables", "slot", "queued", "over"})
"""States that only a person, or a thread that waits for one, can end."""


@dataclass(slots=True)
class Watch:
    """What is known of a tree: who is at work, who waits, and what is asked."""

    thread: ThreadId
    states: dict[ThreadId, str] = field(default_factory=dict[ThreadId, str])
    questions: dict[QuestionId, OpenQuestion] = field(default_factory=dict[QuestionId, OpenQuestion])
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    agent: str = ""
    completion: Completion | None = None
    """How the last run ended, unless another has begun."""
    interrupted: bool = False

    def take(self, item: Happened) -> None:
        event, root = item.event, item.thread == self.thread
        match event:
            case ThreadStarted():
                self.agent = event.pin.definition.id if root else self.agent
            case MessageReceived() | RunStarted() | RunResumed():
                self.states[item.thread] = "running"
                if root:
                    self.completion, self.interrupted = None, False
            case RunWaiting():
                self.states[item.thread] = event.waiting_for
            case RunCompleted() | RunFailed():
                self.states[item.thread] = "over"
                if root:
                    self.completion = event.completion
            case RunInterrupted() | ThreadTerminated():
                self.states[item.thread] = "over"
                self.interrupted = self.interrupted or root
            case ChildStarted():
                self.states.setdefault(event.reference, "queued" if event.queued else "running")
            case QuestionAsked():
                self.questions[event.id] = described(event, item.thread, (self.agent, *item.path))
            case QuestionSettled():
                self.questions.pop(event.id, None)
                self.states[item.thread] = "running"
            case VariablesRequested():
                self.variables[event.request] = event.names
            case VariablesProvided(complete=True):
                self.variables.pop(event.request, None)
            case _:
                pass

    def forget_children(self) -> set[ThreadId]:
        """Everything but the thread itself; returns who was forgotten."""
        gone = self.states.keys() - {self.thread}
        self.states = {id: state for id, state in self.states.items() if id not in gone}
        return gone

    @property
    def waits_for_people(self) -> bool:
        return bool(self.questions or self.variables) and all(state in _STUCK for state in self.states.values())


class Foreground:
    """
    Args:
        asks: Whether questions are asked here, one after the other.
        watches: Only look: stay while it waits, and leave it alone at Ctrl-C.
        tell: Gets each question as it comes, in place of asking it.
    """

    def __init__(
        self,
        app: Retinue,
        thread: ThreadId,
        screen: Screen,
        *,
        asks: bool = False,
        watches: bool = False,
        tell: Callable[[OpenQuestion], None] | None = None,
    ) -> None:
        self._app = app
        self._screen = screen
        self._asks, self._watches, self._tell = asks, watches, tell
        self._taken: dict[ThreadId, Seq] = {}
        self._past: dict[ThreadId, Seq] = {}
        """Up to where events are not shown; gone when that was reached."""
        self._foreign: set[ThreadId] = set()
        """Children that a fork's log tells of and that belong to another tree."""
        self._held: list[Followed] = []
        self._prompt: asyncio.Task[None] | None = None
        self._asked: OpenQuestion | None = None
        self._stops = 0
        self._interrupting: asyncio.Task[None] | None = None
        self.thread = thread
        self.view = View(screen, thread)
        self.watch = Watch(thread)

    async def skip_past(self) -> None:
        """Do not show what has happened so far."""
        rows = await rows_of_tree(self._app.engine.runtime.store, self.thread)
        self._past = {row.id: row.head for row in rows}

    async def reply(self, question: OpenQuestion, line: str) -> None:
        """Answer a question with what was typed. Raises UsageError when it is no answer."""
        await questions.answer(self._app, question.id, parse_reply(question, line))
        self.watch.questions.pop(question.id, None)

    async def interrupt(self) -> None:
        """Stop the run durably; `attend` then returns."""
        self._stops += 1
        await self._app.engine.interrupt(self.thread)

    async def attend(self) -> int:
        """Follow the thread until its run is over, waits for somebody who is not here, or was stopped.

        Returns the exit code. Attending again goes on where this ended.
        """
        loop = asyncio.get_running_loop()
        self._stops = 0
        self.watch.completion, self.watch.interrupted = None, False
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        items = self._app.engine.follow(self.thread, tree=True)
        upcoming = asyncio.ensure_future(anext(items))
        try:
            while (code := self._code()) is None:
                self._tend_prompt()
                await asyncio.wait(
                    [t for t in (upcoming, self._prompt) if t], timeout=_TICK, return_when="FIRST_COMPLETED"
                )
                if upcoming.done():
                    self._take(upcoming.result())
                    upcoming = asyncio.ensure_future(anext(items))
                if self._prompt is None:
                    self.view.tick()
            return code
        finally:
            tasks: list[asyncio.Task[None] | asyncio.Task[Followed]] = [upcoming]
            tasks += [task for task in (self._prompt, self._interrupting) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await items.aclose()
            loop.remove_signal_handler(signal.SIGINT)
            self._screen.close()

    def _take(self, item: Followed) -> None:
        if item.thread in self._foreign:
            return
        if isinstance(item, Happened):
            if item.seq <= self._taken.get(item.thread, 0):
                return
            self._taken[item.thread] = item.seq
            self.watch.take(item)
            if isinstance(item.event, ThreadForked):
                self._foreign |= self.watch.forget_children()
            if item.thread in self._past:
                self._take_past(item)
                return
            if self._stops and isinstance(item.event, RunStarted):
                self._interrupt()  # it came before there was a run to interrupt
        if self._prompt is not None:
            self._held.append(item)
            return
        self.view.show(item)
        if self._tell and isinstance(item, Happened) and isinstance(item.event, QuestionAsked):
            self._tell(self.watch.questions[item.event.id])

    def _take_past(self, item: Happened) -> None:
        self.view.count(item)
        self.watch.completion, self.watch.interrupted = None, False
        if item.seq >= self._past[item.thread]:
            del self._past[item.thread]
        if self._tell and not self._past:
            for question in self.watch.questions.values():
                self._tell(question)

    def _code(self) -> int | None:
        if self._past:
            return None
        if self.watch.completion is not None:
            return CODES[self.watch.completion.status]
        if self.watch.interrupted or self._stops > 1:
            return INTERRUPTED
        stays = self._asks or self._watches or self._stops
        return WAITS if not stays and self.watch.waits_for_people else None

    # questions

    def _tend_prompt(self) -> None:
        if self._prompt is not None and self._asked is not None:
            if not self._prompt.done() and self._asked.id in self.watch.questions and not self._stops:
                return
            if not self._prompt.done():
                self._prompt.cancel()
                if not self._stops:
                    self._screen.line()
            self._prompt = self._asked = None
            for item in self._held:
                self.view.show(item)
            self._held.clear()
        if self._asks and self.watch.questions and not self._stops:
            self._asked = next(iter(self.watch.questions.values()))
            self._screen.close()
            self._prompt = asyncio.create_task(self._ask(self._asked))

    async def _ask(self, question: OpenQuestion) -> None:
        show_question(self._screen, question, more=len(self.watch.questions) - 1)
        while True:
            line = await read_line(f"  {wanted(question)}\n  > ")
            if line is None:
                self._asks = False
                return
            try:
                return await self.reply(question, line)
            except RetinueError as e:
                self._screen.line(f"  {e.message}", "yellow")

    # stopping

    def _on_interrupt(self) -> None:
        self._stops += 2 if self._watches else 1
        if self._stops == 1:
            start = "\n" if self._prompt else ""  # below the line that is being typed
            self._screen.line(f"{start}interrupting; Ctrl-C again quits at once", "yellow")
            self._interrupt()

    def _interrupt(self) -> None:
        self._interrupting = asyncio.create_task(self._app.engine.interrupt(self.thread))


async def in_front(
    app: Retinue,
    thread: ThreadId,
    *,
    asks: bool = True,
    past: bool = True,
    watches: bool = False,
    as_json: bool = False,
) -> int:
    """Attend to a thread until it settles and tell how it ended; returns the exit code.

    Args:
        asks: Whether questions may be asked here, if there is a terminal.
        past: Whether to show what happened before.
        watches: Only look: stay while it waits, and leave it alone at Ctrl-C.
    """
    screen = Screen(streams=not as_json)
    asks = asks and not watches and sys.stdin.isatty() and sys.stderr.isatty()
    tell = partial(show_waiting, screen) if watches else None
    foreground = Foreground(app, thread, screen, asks=asks, watches=watches, tell=tell)
    if not past:
        await foreground.skip_past()
    code = await foreground.attend()
    if not watches or foreground.watch.completion or foreground.watch.interrupted:
        _report(foreground, screen, code, as_json=as_json)
    await _leave(app, screen, code)
    return code


async def stream_json(app: Retinue, thread: ThreadId) -> int:
    """Print every event of a thread and its children, a line each, until the run that is under way is over."""
    watch, head = Watch(thread), (await row_of(app.engine.runtime.store, thread)).head
    async for item in app.engine.follow(thread, tree=True):
        if not isinstance(item, Happened):
            continue
        print_json_line({"thread": item.thread, "path": item.path, "seq": item.seq, **event_json(item.event)})
        watch.take(item)
        if item.thread == thread and item.seq >= head and (watch.completion or watch.interrupted):
            return CODES[watch.completion.status] if watch.completion else INTERRUPTED
    raise AssertionError("following a thread never ends by itself")


def _report(fg: Foreground, screen: Screen, code: int, *, as_json: bool) -> None:
    """The end of a foreground run: the answer, or how to go on."""
    watch, short = fg.watch, fg.thread[:8]
    if as_json:
        status = "waiting" if code == WAITS else "interrupted"
        waiting = {"thread": fg.thread, "status": status, "questions": list(watch.questions.values())}
        print_json(watch.completion or waiting)
        return
    if watch.completion is not None:
        fg.view.result(watch.completion)
        screen.line(f"{watch.completion.status} · {fg.view.meter.text()} · thread {short}", "dim")
        return
    if code == INTERRUPTED:
        screen.line(f"interrupted. To go on: retinue threads resume {short}", "yellow")
        return
    for question in watch.questions.values():
        show_waiting(screen, question)
    for request, names in watch.variables.items():
        screen.line(f"? waits for the variables {', '.join(names)} (request {request})", "bold")
    screen.line(
        f"waiting for a person. The thread goes on when it is answered: retinue threads watch {short}", "yellow"
    )


async def _leave(app: Retinue, screen: Screen, code: int) -> None:
    """Cut nothing off: let what else this process drives come to an end, or hand it over after an interruption."""
    if await app.idle(1.0):
        return
    if code == INTERRUPTED:
        ensure_driver(app.settings)
        return
    screen.line("other threads are still at work here; Ctrl-C leaves them to another process", "dim")
    while not await app.idle(60.0):
        pass
