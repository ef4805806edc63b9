"""Follows a task: what it is now, then every update as it comes, from the log and from what is being said.

Text that streams is the artifact `result` in the making: the first piece of each request
replaces it, further ones append, and the completion has the last word.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from a2a.types.a2a_pb2 import Artifact, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from a2a.types.a2a_pb2 import Part as WirePart

from retinue.a2a_server.parts import RESULT
from retinue.a2a_server.tasks import TaskFold, Update
from retinue.ports.a2a import TaskRow
from retinue.runtime.engine import Engine
from retinue.runtime.live import Piece
from retinue.schema.events.union import decode
from retinue.schema.ids import QuestionId, Seq

Heard = Task | Message | Update
_IDLE = 15.0
_OPENING = 1.0
"""Seconds that a stream may stay silent to see whether its agent answers with a message alone."""


@dataclass(slots=True)
class News:
    """`updates` is empty whenever all that is there has been read."""

    fold: TaskFold
    updates: list[Update]


async def current(engine: Engine, task: TaskRow) -> TaskFold:
    """The task as it is now, open questions of threads below it included."""
    fold = fresh(engine, task)
    for seq, event in await engine.log(task.thread):
        fold.apply(task.thread, seq, event)
    for thread, row in await engine.runtime.store.questions(task.tenant, root=task.thread):
        if thread != task.thread:
            fold.apply(thread, 0, decode(row.data))
    return fold


async def watch(
    engine: Engine, task: TaskRow, *, answered: QuestionId | None = None, deltas: bool = False, idle: float = _IDLE
) -> AsyncGenerator[News]:
    """Yield once when the past was read, then for everything that callers hear of.

    Args:
        engine: Whose thread it is.
        task: Which.
        answered: A question whose answer is on its way: it counts as settled.
        deltas: Also text as it is being said.
        idle: Yield again after so many seconds without news.
    """
    fold, draft, is_past = fresh(engine, task), _Draft(), True
    items = engine.attend(task.thread, tree=True, deltas=deltas, idle=idle)
    async with aclosing(items):
        async for item in items:
            if item is None:
                if is_past:
                    _settle(fold, answered)
                is_past = False
                yield News(fold, [])
                continue
            if isinstance(item, Piece):
                if is_past or item.thread != task.thread or item.kind != "text" or fold.ended:
                    continue
                if pieces := draft.add(fold, item):
                    yield News(fold, pieces)
                continue
            updates = fold.apply(item.thread, item.seq, item.event)
            if updates and not is_past:
                yield News(fold, draft.finish(fold, updates))


async def until(
    engine: Engine, task: TaskRow, is_over: Callable[[TaskFold], bool], *, answered: QuestionId | None = None
) -> TaskFold:
    news = watch(engine, task, answered=answered)
    async with aclosing(news):
        async for one in news:
            if is_over(one.fold):
                return one.fold
    raise AssertionError("watching a task never ends by itself")


async def stream(
    engine: Engine,
    task: TaskRow,
    is_over: Callable[[TaskFold], bool],
    *,
    answered: QuestionId | None = None,
    may_reply: bool = False,
) -> AsyncGenerator[Heard]:
    """What a caller hears: the task, then its updates; or one message and nothing else.

    Args:
        engine: Whose thread it is.
        task: Which.
        is_over: When there is nothing more to hear.
        answered: As for `watch`.
        may_reply: The agent may answer with a message alone. Only its end tells, so the task is held back for
            as long as there is nothing to tell but that it works, and never for long.
    """
    held: list[Heard] = []
    is_open, begun, opens = not may_reply, False, time.monotonic() + _OPENING
    news = watch(engine, task, answered=answered, deltas=True, idle=_OPENING if may_reply else _IDLE)
    async with aclosing(news):
        async for one in news:
            if not is_open and (reply := one.fold.reply()) is not None:
                yield reply
                return
            held += one.updates if begun else [one.fold.task()]
            is_open = is_open or one.fold.settled or not _works(one.updates) or time.monotonic() >= opens
            begun = True
            while is_open and held:
                yield held.pop(0)
            if is_over(one.fold):
                return


def fresh(engine: Engine, task: TaskRow) -> TaskFold:
    return TaskFold(task.thread, task.context, engine.runtime.files(task.thread))


def _works(updates: list[Update]) -> bool:
    """Whether they tell no more than that the task works."""
    return all(isinstance(u, TaskStatusUpdateEvent) and u.status.state == TaskState.TASK_STATE_WORKING for u in updates)


def _settle(fold: TaskFold, answered: QuestionId | None) -> None:
    """The answer is accepted, though its thread has not read it yet."""
    if answered in fold.questions and len(fold.questions) == 1:
        fold.state, fold.message = TaskState.TASK_STATE_WORKING, None


@dataclass(slots=True)
class _Draft:
    """The result as far as it was streamed. The newest piece is held back, so that the last one can say so."""

    request: tuple[Seq, int] = (0, 0)
    text: str = ""
    held: str = ""
    sent: bool = field(default=False)

    def add(self, fold: TaskFold, piece: Piece) -> list[Update]:
        if self.request != (piece.event, piece.attempt):
            self.request, self.text, self.held, self.sent = (piece.event, piece.attempt), "", "", False
        updates = self._flush(fold, last=False) if self.held else []
        self.text += piece.text
        self.held = piece.text
        return updates

    def finish(self, fold: TaskFold, updates: list[Update]) -> list[Update]:
        """What remains to be said when the log speaks."""
        if not self.text:
            return updates
        said = [u for u in updates if isinstance(u, TaskArtifactUpdateEvent) and u.artifact.artifact_id == RESULT]
        whole = "".join(part.text for part in said[0].artifact.parts) if said else ""
        if whole.startswith(self.text):
            self.held += whole.removeprefix(self.text)
            return [*self._flush(fold, last=True), *(u for u in updates if u is not said[0])]
        return updates if fold.ended or not self.held else [*self._flush(fold, last=False), *updates]

    def _flush(self, fold: TaskFold, *, last: bool) -> list[Update]:
        piece = Artifact(artifact_id=RESULT, name=RESULT, parts=[WirePart(text=self.held)])
        append, self.sent, self.held = self.sent, True, ""
        return [fold.chunk(piece, append=append, last=last)]
