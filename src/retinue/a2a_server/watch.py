"""Follows a task: what it is now, then every update as it comes, from the log and from what is being said.

Text that streams is the artifact `result` in the making: the first piece of each request
replaces it, further ones append, and the completion has the last word.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from a2a.types.a2a_pb2 import Artifact, TaskArtifactUpdateEvent, TaskState
from a2a.types.a2a_pb2 import Part as WirePart

from retinue.a2a_server.parts import RESULT
from retinue.a2a_server.tasks import TaskFold, Update
from retinue.ports.a2a import TaskRow
from retinue.runtime.engine import Engine
from retinue.runtime.live import Piece
from retinue.schema.events.union import decode
from retinue.schema.ids import QuestionId, Seq

_IDLE = 15.0


@dataclass(slots=True, kw_only=True)
class News:
    """`updates` is empty once, when all that was there has been read."""

    fold: TaskFold
    updates: list[Update]
    seq: Seq


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
    engine: Engine, task: TaskRow, *, answered: QuestionId | None = None, deltas: bool = False
) -> AsyncGenerator[News]:
    """Yield once when the past was read, then for everything that callers hear of.

    Args:
        engine: Whose thread it is.
        task: Which.
        answered: A question whose answer is on its way: it counts as settled.
        deltas: Also text as it is being said.
    """
    fold, draft, is_past, seen = fresh(engine, task), _Draft(), True, 0
    items = engine.attend(task.thread, tree=True, deltas=deltas, idle=_IDLE)
    async with aclosing(items):
        async for item in items:
            if item is None:
                if is_past:
                    _settle(fold, answered)
                    yield News(fold=fold, updates=[], seq=seen)
                is_past = False
                continue
            if isinstance(item, Piece):
                if is_past or item.thread != task.thread or item.kind != "text" or fold.ended:
                    continue
                if pieces := draft.add(fold, item):
                    yield News(fold=fold, updates=pieces, seq=seen)
                continue
            updates = fold.apply(item.thread, item.seq, item.event)
            seen = item.seq if item.thread == task.thread else seen
            if updates and not is_past:
                yield News(fold=fold, updates=draft.finish(fold, updates), seq=seen)


def fresh(engine: Engine, task: TaskRow) -> TaskFold:
    return TaskFold(task.thread, task.context, engine.runtime.files(task.thread))


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
