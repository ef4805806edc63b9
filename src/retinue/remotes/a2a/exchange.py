"""One message to a remote agent, to the end of what it causes: sent once, followed through broken connections."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import httpx
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    GetTaskRequest,
    ListTasksRequest,
    Message,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError

from retinue.remotes.a2a.connection import Connection, Connections
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import ModelError

Sent = Task | Message
PATIENCE = 120.0
"""Seconds that a remote may be unreachable in the middle of a task."""
_POLL = 1.0
_GOES_ON = frozenset({TaskState.TASK_STATE_UNSPECIFIED, TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
ASKING = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})


class Exchange:
    def __init__(self, definition: AgentDefinition, connections: Connections, note: Message) -> None:
        """
        Args:
            definition: The remote agent.
            connections: Its card and client.
            note: Gets the task's id as soon as it is known.
        """
        self._definition, self._connections, self._note = definition, connections, note

    async def send(self, message: Message, tell: Callable[[str], None]) -> Sent:
        """Returns a task that ended or wants input, or the message that answers alone.

        Raises:
            ModelError: the remote refused, or was away for too long.
        """
        held = await self._connections.get(self._definition)
        task: Task | None = None
        asked_before, pause, last_good = False, 0.2, time.monotonic()
        while True:
            try:
                if task is None and not asked_before:
                    task, asked_before = await self.known(held, message), True
                got = await self._follow(held, message, task, tell)
                if isinstance(got, Message) or got.status.state not in _GOES_ON:
                    return got
                task, pause, last_good = got, 0.2, time.monotonic()
                continue
            except A2AError as error:
                failure = await self._failure(error)
                if not failure.transient or time.monotonic() - last_good > PATIENCE:
                    raise failure from None
                asked_before = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)

    async def known(self, held: Connection, message: Message) -> Task | None:
        """The task that this message belongs to, if the remote has it already, or needs no answer any more."""
        try:
            if message.task_id:
                tasks = [await held.client.get_task(GetTaskRequest(id=message.task_id))]
                if tasks[0].status.state not in _GOES_ON | ASKING:
                    return tasks[0]
            else:
                wanted = ListTasksRequest(context_id=message.context_id)
                tasks = list((await held.client.list_tasks(wanted)).tasks)
        except (A2AError, NotImplementedError) as error:
            if isinstance(error, A2AClientError) and _is_transient(error):
                raise
            return None  # it can't tell, so we must send
        return next((t for t in tasks if any(m.message_id == message.message_id for m in t.history)), None)

    async def _follow(self, held: Connection, message: Message, task: Task | None, tell: Callable[[str], None]) -> Sent:
        streams = held.card.capabilities.streaming
        if task is not None and task.status.state not in _GOES_ON:
            return await self._whole(held, task)
        if task is not None and not streams:
            await asyncio.sleep(_POLL)
            return await held.client.get_task(GetTaskRequest(id=task.id))
        if task is None:
            request = SendMessageRequest(message=message)
            request.configuration.return_immediately = not streams
            events = held.client.send_message(request)
        else:
            self._note.task_id = task.id
            events = held.client.subscribe(SubscribeToTaskRequest(id=task.id))
        try:
            heard = await self._listen(events, task, tell)
        except A2AClientError:
            raise
        except A2AError:
            if task is None:
                raise
            heard = task  # it ended meanwhile, or can't be subscribed to
        if isinstance(heard, Message):
            return heard
        return await self._whole(held, heard)

    async def _listen(
        self, events: AsyncIterator[StreamResponse], task: Task | None, tell: Callable[[str], None]
    ) -> Sent:
        async for event in events:
            match event.WhichOneof("payload"):
                case "message":
                    return event.message
                case "task":
                    task = event.task
                    self._note.task_id = task.id
                case "status_update":
                    update = event.status_update
                    task = task or Task(id=update.task_id, context_id=update.context_id)
                    task.status.CopyFrom(update.status)
                    if update.status.state not in _GOES_ON:
                        break
                case "artifact_update":
                    tell("".join(part.text for part in event.artifact_update.artifact.parts))
                case _:
                    continue
        if task is None:
            raise A2AClientError("the stream ended without an answer")
        return task

    async def _whole(self, held: Connection, task: Task) -> Task:
        """The task with all its artifacts; a stream may have begun in the middle."""
        try:
            return await held.client.get_task(GetTaskRequest(id=task.id))
        except TaskNotFoundError:
            return task

    async def _failure(self, error: A2AError) -> ModelError:
        status, agent = _status(error), self._definition.id
        if status in (401, 403):
            await self._connections.drop(self._definition)
            return ModelError(
                f"{agent} refused our credentials ({status})", status=status, hint="check auth of the agent"
            )
        text = f"{agent}: {error.message}"
        return ModelError(text, status=status, transient=isinstance(error, A2AClientError) and _is_transient(error))


def _status(error: A2AError) -> int | None:
    cause = error.__cause__
    return cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None


def _is_transient(error: A2AClientError) -> bool:
    status = _status(error)
    if isinstance(error.__cause__, httpx.UnsupportedProtocol):
        return False
    return status is None or status >= 500 or status == 429
