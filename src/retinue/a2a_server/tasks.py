"""A thread's log as an A2A task: one fold for answers, lists, streams and push notifications.

Everything derives from the log, ids and times included, so every reader sees the same
updates in the same order, also after a restart. A task that has ended stays as it is,
whatever somebody does with its thread later.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import msgspec
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.types.a2a_pb2 import Part as WirePart
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from retinue.a2a_server.parts import artifacts_of, is_chunked, said_of, sent
from retinue.schema.completion import Completion
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import MessageReceived, RunCompleted, RunFailed, RunInterrupted, RunResumed, RunStarted
from retinue.schema.events.threads import ThreadStarted, ThreadTerminated
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import QuestionId, Seq, ThreadId
from retinue.schema.thread import ThreadStatus

Update = TaskStatusUpdateEvent | TaskArtifactUpdateEvent

ENDED = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
STATUSES: dict[TaskState, tuple[ThreadStatus, ...]] = {
    TaskState.TASK_STATE_SUBMITTED: ("idle", "running"),
    TaskState.TASK_STATE_WORKING: ("running", "waiting", "interrupted", "idle"),
    TaskState.TASK_STATE_INPUT_REQUIRED: ("waiting",),
    TaskState.TASK_STATE_AUTH_REQUIRED: ("waiting",),
    TaskState.TASK_STATE_COMPLETED: ("completed", "terminated", "running"),
    TaskState.TASK_STATE_FAILED: ("failed", "completed", "terminated", "running"),
    TaskState.TASK_STATE_CANCELED: ("terminated", "failed", "completed", "running"),
    TaskState.TASK_STATE_REJECTED: ("failed", "completed", "terminated", "running"),
}
"""Which threads can be tasks of a state; the fold then tells exactly."""
FOR_CALLERS = frozenset({"text", "choice", "file", "approval"})
"""Questions that the caller answers. The others are the operator's: no caller grants itself anything."""
_FOR_OPERATORS = "This step needs a permission that the operator of this agent gives."
ANSWERED_BY = "a2a:"
"""Who settled a question, followed by the id of the caller's message."""


@dataclass(slots=True)
class TaskFold:
    thread: ThreadId
    context: str
    folder: Path
    """Of the thread's files."""
    state: TaskState = TaskState.TASK_STATE_SUBMITTED
    at: float = 0.0
    message: Message | None = None
    completion: Completion | None = None
    artifacts: list[Artifact] = field(default_factory=list[Artifact])
    history: list[Message] = field(default_factory=list[Message])
    questions: dict[QuestionId, QuestionAsked] = field(default_factory=dict[QuestionId, QuestionAsked])

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def settled(self) -> bool:
        """Nothing more happens unless somebody says something."""
        return self.ended or self.state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED)

    @property
    def question(self) -> QuestionAsked | None:
        """What the caller's next message answers."""
        return next((asked for asked in self.questions.values() if asked.kind in FOR_CALLERS), None)

    def knows(self, message: str) -> bool:
        return any(said.message_id == message for said in self.history)

    def apply(self, thread: ThreadId, seq: Seq, event: AnyEvent) -> list[Update]:
        """Take an event of the thread or of one below it; returns what callers hear of it."""
        if self.ended:
            return []
        match event:
            case QuestionAsked():
                self.questions[event.id] = event
                return self._ask(event.at)
            case QuestionSettled() if event.id in self.questions:
                if self.questions.pop(event.id).kind in FOR_CALLERS:
                    self._answered(thread, seq, event)
                return self._ask(event.at)
            case _ if thread != self.thread:
                return []
            case ThreadStarted():
                self.at = event.at
            case MessageReceived(side="b", silent=False):
                self.history.append(self._said(Role.ROLE_USER, str(event.id), sent(event.parts)))
            case RunStarted() | RunResumed():
                return [] if self.questions else self._working(event.at)
            case RunInterrupted(by=by):
                return self._become(TaskState.TASK_STATE_WORKING, event.at, self._note(seq, f"Interrupted by {by}."))
            case RunCompleted(completion=completion) | RunFailed(completion=completion):
                return self._end(seq, event.at, completion)
            case ThreadTerminated(reason=reason):
                return self._become(TaskState.TASK_STATE_CANCELED, event.at, self._note(seq, reason or "Canceled."))
            case _:
                pass
        return []

    def task(self) -> Task:
        return Task(
            id=self.thread,
            context_id=self.context,
            status=self.status(),
            artifacts=self.artifacts,
            history=self.history,
        )

    def reply(self) -> Message | None:
        """The answer as a message alone, where the agent says that there is no task to speak of."""
        if self.completion is None or said_of(self.completion).reply != "message":
            return None
        parts = [part for artifact in self.artifacts for part in artifact.parts] or [WirePart(text="")]
        return self._said(Role.ROLE_AGENT, _id(self.thread, "reply"), parts, task=False)

    def status(self) -> TaskStatus:
        stamp = Timestamp()
        stamp.FromMilliseconds(int(self.at * 1000))
        return TaskStatus(state=self.state, message=self.message, timestamp=stamp)

    def chunk(self, artifact: Artifact, *, append: bool = False, last: bool = False) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self.thread, context_id=self.context, artifact=artifact, append=append, last_chunk=last
        )

    def _become(self, state: TaskState, at: float, message: Message | None = None) -> list[Update]:
        self.state, self.at, self.message = state, at, message
        return [TaskStatusUpdateEvent(task_id=self.thread, context_id=self.context, status=self.status())]

    def _working(self, at: float) -> list[Update]:
        if self.state == TaskState.TASK_STATE_WORKING and self.message is None:
            return []
        return self._become(TaskState.TASK_STATE_WORKING, at)

    def _ask(self, at: float) -> list[Update]:
        """What the open questions make of the task; the caller's come first."""
        if not self.questions:
            return self._working(at)
        if (asked := self.question) is None:
            parts = [WirePart(text=_FOR_OPERATORS)]
            waits = self._said(Role.ROLE_AGENT, _id(self.thread, next(iter(self.questions))), parts)
            return self._become(TaskState.TASK_STATE_AUTH_REQUIRED, at, waits)
        parts = [WirePart(text=asked.prompt)]
        if asked.choices:
            parts.append(ParseDict({"data": {"choices": list(asked.choices)}}, WirePart()))
        message = self._said(Role.ROLE_AGENT, _id(self.thread, asked.id), parts)
        if not self.knows(message.message_id):
            self.history.append(message)
        return self._become(TaskState.TASK_STATE_INPUT_REQUIRED, asked.at, message)

    def _answered(self, thread: ThreadId, seq: Seq, event: QuestionSettled) -> None:
        if event.status != "answered":
            return
        id = event.by.removeprefix(ANSWERED_BY) if event.by.startswith(ANSWERED_BY) else _id(thread, f"{seq}")
        text = event.answer if isinstance(event.answer, str) else msgspec.json.encode(event.answer).decode()
        self.history.append(self._said(Role.ROLE_USER, id, [WirePart(text=text)]))

    def _end(self, seq: Seq, at: float, completion: Completion) -> list[Update]:
        self.completion = completion
        self.artifacts = artifacts_of(completion, self.folder)
        updates = [chunk for artifact in self.artifacts for chunk in self._pieces(completion, artifact)]
        failed = completion.error or str(completion.result or "The task failed.")
        note = self._note(seq, failed) if completion.status == "FAILED" else None
        return [*updates, *self._become(ended_as(completion), at, note)]

    def _pieces(self, completion: Completion, artifact: Artifact) -> Iterable[Update]:
        if not is_chunked(completion, artifact):
            return [self.chunk(artifact, last=True)]
        pieces = [Artifact(artifact_id=artifact.artifact_id, name=artifact.name, parts=[p]) for p in artifact.parts]
        return [self.chunk(p, append=i > 0, last=i == len(pieces) - 1) for i, p in enumerate(pieces)]

    def _note(self, seq: Seq, text: str) -> Message:
        return self._said(Role.ROLE_AGENT, _id(self.thread, f"{seq}"), [WirePart(text=text)])

    def _said(self, role: Role, id: str, parts: list[WirePart], *, task: bool = True) -> Message:
        return Message(
            message_id=id,
            context_id=self.context,
            task_id=self.thread if task else "",
            role=role,
            parts=parts or [WirePart(text="")],
        )


def ended_as(completion: Completion) -> TaskState:
    if said_of(completion).state == "rejected":
        return TaskState.TASK_STATE_REJECTED
    if completion.status != "FAILED":
        return TaskState.TASK_STATE_COMPLETED
    canceled = completion.reason in ("aborted", "terminated")
    return TaskState.TASK_STATE_CANCELED if canceled else TaskState.TASK_STATE_FAILED


def _id(thread: ThreadId, place: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"{thread}/{place}"))
