"""The app for programs without an event loop: the same words, and each call waits for its result.

The loop runs in a thread of its own for as long as the app is open, so threads
go on between calls. Any thread of the program may call.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

from retinue.app import questions
from retinue.app.questions import OpenQuestion, Reply
from retinue.app.retinue import Retinue, Wishes
from retinue.app.settings import Settings
from retinue.definition.code import CodeAgent
from retinue.ports.model import Models
from retinue.ports.tool import Tool
from retinue.runtime.engine import Engine
from retinue.runtime.follow import Followed
from retinue.runtime.hooks import Hook
from retinue.runtime.state import State
from retinue.schema.agent import AgentDefinition
from retinue.schema.completion import Completion
from retinue.schema.ids import QuestionId, ThreadId
from retinue.schema.message import Part

_T = TypeVar("_T")


class Options(TypedDict, total=False):
    """What `Retinue` takes."""

    agents: Iterable[AgentDefinition | CodeAgent]
    tools: Iterable[Tool]
    models: Models | None
    hooks: Iterable[Hook]
    data_dir: str | Path | None
    settings: Settings | None
    workspace: str | Path | None
    environ: Mapping[str, str] | None
    drive: bool


class RetinueSync:
    """`Retinue`, blocking. Takes the same arguments."""

    def __init__(self, **options: Unpack[Options]) -> None:
        self._app = Retinue(**options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="retinue", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.call(self._app.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call(self._app.__aexit__(kind, error, trace))
        finally:
            self._end()

    def run(self, agent: str, message: str | Sequence[Part], **wishes: Unpack[Wishes]) -> Completion:
        """Start a thread and wait for its completion."""
        return self.call(self._app.run(agent, message, **wishes))

    def start(self, agent: str, message: str | Sequence[Part], **wishes: Unpack[Wishes]) -> ThreadId:
        """Start a thread and return at once; it is durable and runs on."""
        return self.call(self._app.start(agent, message, **wishes))

    def stream(self, agent: str, message: str | Sequence[Part], **wishes: Unpack[Wishes]) -> Generator[Followed]:
        """Start a thread and yield its events and deltas until its run is over."""
        items = self._app.stream(agent, message, **wishes)

        async def upcoming() -> Followed | None:
            return await anext(items, None)

        try:
            while (item := self.call(upcoming())) is not None:
                yield item
        finally:
            self.call(items.aclose())

    def send(self, thread: ThreadId, message: str | Sequence[Part]) -> str:
        """Say something to a thread; it joins the run under way or starts one."""
        return self.call(self._app.engine.send(thread, message))

    def wait(self, thread: ThreadId) -> Completion:
        return self.call(self._app.engine.wait(thread))

    def questions(self) -> list[OpenQuestion]:
        """What waits for a person, of all trees."""
        return self.call(questions.open_questions(self._app))

    def answer(self, question: QuestionId, reply: Reply) -> ThreadId:
        return self.call(questions.answer(self._app, question, reply))

    def state(self, thread: ThreadId) -> State:
        return self.call(self._app.engine.state(thread))

    def interrupt(self, thread: ThreadId) -> None:
        self.call(self._app.engine.interrupt(thread))

    def resume(self, thread: ThreadId) -> None:
        self.call(self._app.engine.resume(thread))

    def use(self, act: "Callable[[Engine], Coroutine[Any, Any, _T]]") -> _T:
        """Anything else the engine can do: `app.use(lambda engine: engine.fork(thread))`."""
        return self.call(act(self._app.engine))

    def call(self, work: "Coroutine[Any, Any, _T]") -> _T:
        """Run a coroutine on the app's loop and wait for it; Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
