"""`retinue chat`: a conversation with an agent, at a terminal or line by line.

What is typed while the agent works is queued and joins its run. A question of the
agent is answered by the next line.
"""

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import click

from retinue.app.questions import OpenQuestion
from retinue.app.retinue import Retinue
from retinue.app.settings import Settings
from retinue.app.threads import find_thread, row_of
from retinue.cli.ask import show_question, wanted
from retinue.cli.command import command, wants_json
from retinue.cli.foreground import INTERRUPTED, Foreground
from retinue.cli.opening import opened
from retinue.cli.output import print_json_line
from retinue.cli.status import Screen
from retinue.schema.completion import Completion
from retinue.schema.errors import RetinueError, UsageError
from retinue.schema.ids import ThreadId

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyPressEvent

HELP = {
    "/help": "what can be typed",
    "/thread": "this conversation's thread",
    "/agents": "the agents there are",
    "/model NAME": "go on with another model, in a fork",
    "/fork": "go on in a copy of this thread",
    "/interrupt": "stop the agent; Ctrl-C does the same",
    "/quit": "leave; Ctrl-D does the same",
}


@command()
@click.argument("agent", required=False)
@click.option("--thread", "thread", metavar="ID", help="Go on with this thread.")
@click.option("--model", help="Another model than the agent's.")
async def chat(*, agent: str | None, thread: str | None, model: str | None) -> None:
    """Talk to AGENT, or to the default agent. Alt-Enter starts a new line, /help lists what else there is.

    Without a terminal each line of standard input is a message; with --json each answer is one line of JSON.
    """
    if thread is not None and (agent or model):
        raise UsageError("a thread has its agent and model already", hint="/model changes it")
    as_json = wants_json()
    async with opened(drive=True) as app:
        if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
            await _at_terminal(app, agent, thread, model)
            return
        talk = Chat(app, Screen(streams=not as_json), agent=agent, model=model, as_json=as_json)
        await talk.open(thread)
        async for line in _lines():
            if not await talk.take(line):
                break
            await talk.settled()


class Chat:
    """One conversation; where lines come from is the caller's business."""

    def __init__(
        self, app: Retinue, screen: Screen, *, agent: str | None, model: str | None, as_json: bool = False
    ) -> None:
        self._app = app
        self._screen = screen
        self._as_json = as_json
        self._agent = app.pin(agent or app.settings.default_agent).definition.id
        self._model = model
        self._front: Foreground | None = None
        self._attending: asyncio.Task[None] | None = None
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help,
            "/thread": self._thread,
            "/agents": self._agents,
            "/model": self._fork,
            "/fork": self._fork,
            "/interrupt": lambda _: self.interrupt(),
        }

    @property
    def busy(self) -> bool:
        return self._attending is not None and not self._attending.done()

    @property
    def status(self) -> str:
        if self._front is None:
            return f"{self._agent} · /help"
        where = f"{self._agent} · {self._front.thread[:8]}"
        if not self.busy:
            return f"{where} · {self._front.view.meter.text('/help')}"
        return "\n".join([where, *self._front.view.status()])

    async def open(self, prefix: str | None) -> None:
        if prefix is None:
            return
        thread = await find_thread(self._app.engine.runtime.store, prefix)
        row = await row_of(self._app.engine.runtime.store, thread)
        self._agent = row.listing.agent
        await self._go_to(thread)
        self._screen.line(f"{row.listing.agent}, {row.listing.status}: {row.listing.title or thread}", "dim")
        if row.listing.status in ("running", "waiting"):
            self._attend()

    async def take(self, line: str) -> bool:
        """Act on one line; False when it says to leave."""
        text = line.strip()
        if text in ("/quit", "/exit"):
            return False
        try:
            await self._act(text)
        except RetinueError as e:
            self._screen.line("; ".join(filter(None, [e.message, e.hint])), "red")
        return True

    async def settled(self) -> None:
        """Wait until the agent has answered or asks something."""
        if self._attending is not None:
            await self._attending

    async def interrupt(self) -> None:
        if self._front is not None and self.busy:
            await self._front.interrupt()

    async def close(self) -> None:
        if self._attending is not None:
            self._attending.cancel()
            await asyncio.wait([self._attending])

    async def _act(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        if not text:
            return
        if word in self._commands:
            await self._commands[word](rest.strip() if word == "/model" else "")
        elif word.startswith("/") and word[1:].isalpha():
            raise UsageError(f"there is no {word}", hint=f"there is {', '.join(HELP)}")
        elif self._front is None:
            thread = await self._app.start(self._agent, text, model=self._model)
            self._front = Foreground(self._app, thread, self._screen, tell=self._ask)
            self._attend()
        elif self._front.watch.questions:
            await self._front.reply(next(iter(self._front.watch.questions.values())), text)
            self._attend()
        else:
            await self._app.engine.send(self._front.thread, text)
            self._attend()

    def _attend(self) -> None:
        if not self.busy and self._front is not None:
            self._attending = asyncio.create_task(self._follow(self._front))

    async def _follow(self, front: Foreground) -> None:
        code = await front.attend()
        while front.watch.completion is not None and await self._is_more(front.thread):
            self._answer(front, front.watch.completion)
            code = await front.attend()
        if front.watch.completion is not None:
            self._answer(front, front.watch.completion)
        elif code == INTERRUPTED:
            self._screen.line("interrupted; what you say next lets it go on", "yellow")

    def _answer(self, front: Foreground, completion: Completion) -> None:
        if self._as_json:
            print_json_line(completion)
        else:
            front.view.result(completion)

    def _ask(self, question: OpenQuestion) -> None:
        if self._as_json:
            print_json_line({"question": question})
            return
        show_question(self._screen, question)
        self._screen.line(f"  {wanted(question)}", "dim")

    async def _is_more(self, thread: ThreadId) -> bool:
        row = await row_of(self._app.engine.runtime.store, thread)
        return row.inbox_head > row.drained or row.listing.status in ("running", "waiting")

    async def _go_to(self, thread: ThreadId) -> None:
        self._front = Foreground(self._app, thread, self._screen, tell=self._ask)
        await self._front.skip_past()

    # what starts with a slash

    async def _help(self, _: str) -> None:
        for typed, help in HELP.items():
            self._screen.line(f"  {typed.ljust(12)} {help}")

    async def _thread(self, _: str) -> None:
        self._screen.line(self._front.thread if self._front else "there is none before you say something")

    async def _agents(self, _: str) -> None:
        from retinue.app.catalog import read_catalog

        for definition in (await asyncio.to_thread(read_catalog, self._app.settings)).visible():
            self._screen.line(f"  {definition.id.ljust(24)} {definition.description[:80]}")

    async def _fork(self, model: str) -> None:
        if self._front is None:
            self._model = model or self._model
            return
        if self.busy:
            raise UsageError("the agent is at work", hint="/interrupt first")
        thread = await self._app.engine.fork(self._front.thread, model=model or None)
        await self._go_to(thread)
        self._screen.line(f"this is thread {thread[:8]} now", "dim")


async def _lines() -> AsyncIterator[str]:
    """Lines of standard input, without holding up the run."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line


class _WholeLines(io.TextIOBase):
    """Above a prompt only whole lines can be written."""

    def __init__(self) -> None:
        self._waiting = ""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else 1

    def write(self, text: str) -> int:
        whole, newline, rest = (self._waiting + text).rpartition("\n")
        self._waiting = rest
        if newline:
            print(whole)
        return len(text)


async def _at_terminal(app: Retinue, agent: str | None, thread: str | None, model: str | None) -> None:
    from prompt_toolkit.patch_stdout import patch_stdout

    session = _session(app.settings)
    with patch_stdout(raw=True):
        screen = Screen(_WholeLines(), draws=False)
        talk = Chat(app, screen, agent=agent, model=model)
        await talk.open(thread)
        while True:
            try:
                # Between two prompts Ctrl-C is a signal, and belongs to whoever attends to the thread.
                line = await session.prompt_async(
                    "› ", bottom_toolbar=lambda: talk.status, refresh_interval=0.5, handle_sigint=False
                )
            except KeyboardInterrupt:
                screen.line("" if talk.busy else "/quit or Ctrl-D leaves", "dim")
                await talk.interrupt()
                continue
            except EOFError:
                break
            if not await talk.take(line):
                break
        await talk.close()


def _session(settings: Settings) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings

    settings.home.mkdir(parents=True, exist_ok=True)
    bindings = KeyBindings()

    def new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text("\n")

    bindings.add("escape", "enter")(new_line)
    return PromptSession(history=FileHistory(str(settings.home / "chat_history")), key_bindings=bindings)
