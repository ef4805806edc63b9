"""A2A's operations on the app: a task is a thread, and its id the thread's.

The SDK parses, checks versions and formats answers for both bindings; nothing of a task
is kept here. A foreign task answers exactly like a missing one.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import NAMESPACE_URL, uuid5

import msgspec
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InvalidParamsError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from a2a.utils.input_mode_validator import validate_input_modes
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.task import apply_history_length, validate_history_length
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage

from retinue.a2a_server import listing
from retinue.a2a_server.callers import Call, call_of
from retinue.a2a_server.cards import agent_card, directory_card
from retinue.a2a_server.parts import received
from retinue.a2a_server.push import Pushes
from retinue.a2a_server.tasks import ANSWERED_BY, ENDED
from retinue.a2a_server.watch import current, stream, until
from retinue.app.retinue import Retinue
from retinue.ports.a2a import TaskRow
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import Conflict, NotFound, RetinueError
from retinue.schema.events.people import QuestionAsked
from retinue.schema.ids import DEFAULT_TENANT, QuestionId, ThreadId
from retinue.schema.message import Part, text_of


class Handler(RequestHandler):
    def __init__(self, app: Retinue, pushes: Pushes, *, old: bool) -> None:
        self._app = app
        self._pushes = pushes
        self._old = old

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        task, answered = await self._admit(params, _call(params, context))
        config = params.configuration
        fold = await until(self._app.engine, task, lambda f: f.settled or config.return_immediately, answered=answered)
        return fold.reply() or apply_history_length(fold.task(), config)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        call = _call(params, context)
        task, answered = await self._admit(params, call)
        may_reply = call.agents[task.agent].completion == "explicit"
        heard = stream(self._app.engine, task, lambda fold: fold.settled, answered=answered, may_reply=may_reply)
        async with aclosing(heard):
            async for event in heard:
                yield apply_history_length(event, params.configuration) if isinstance(event, Task) else event

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        task = await self._task(params.id, _call(params, context))
        heard = stream(self._app.engine, task, lambda fold: fold.ended)
        async with aclosing(heard):
            async for event in heard:
                if isinstance(event, Task) and event.status.state in ENDED:
                    raise UnsupportedOperationError(message=f"Task {task.thread} has ended; get it instead")
                yield event

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        validate_history_length(params)
        task = await self._task(params.id, _call(params, context))
        return apply_history_length((await current(self._app.engine, task)).task(), params)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        return await listing.listed(self._app, params, _call(params, context))

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        call = _call(params, context)
        task = await self._task(params.id, call)
        engine = self._app.engine
        if (await current(engine, task)).ended:
            raise TaskNotCancelableError(message=f"Task {task.thread} has ended already")
        try:
            await engine.terminate(task.thread, reason="Canceled by the caller.", by=call.caller.name)
        except Conflict:
            raise TaskNotCancelableError from None
        return (await until(engine, task, lambda fold: fold.ended)).task()

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        task = await self._task(params.task_id, _call(params, context))
        return await self._pushes.save(task, await self._pushes.checked(params))

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        task = await self._task(params.task_id, _call(params, context))
        found = [config for config in await self._pushes.of(task.thread) if config.id == params.id]
        if not found:
            raise TaskNotFoundError(message=f"Task {task.thread} has no push notification config {params.id}")
        return found[0]

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        task = await self._task(params.task_id, _call(params, context))
        return ListTaskPushNotificationConfigsResponse(configs=await self._pushes.of(task.thread))

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        task = await self._task(params.task_id, _call(params, context))
        await self._pushes.delete(task.thread, params.id)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        return card_for(_call(params, context), old=self._old, extended=True)

    # what a message means

    async def _admit(self, params: SendMessageRequest, call: Call) -> tuple[TaskRow, QuestionId | None]:
        """Start, answer or add, durably; a message that is known already changes nothing."""
        validate_history_length(params.configuration)
        validate_input_modes(params.message, card_for(call, old=self._old))
        if not all(part.WhichOneof("content") for part in params.message.parts):
            raise InvalidParamsError(message="A part needs text, raw, url or data")
        message, settings = params.message, params.configuration
        config = None
        if settings.HasField("task_push_notification_config"):
            config = await self._pushes.checked(settings.task_push_notification_config)
        try:
            if not message.task_id:
                task, answered = await self._start(message, call), None
            else:
                task = await self._task(message.task_id, call)
                answered = await self._continue(message, task)
        except NotFound as error:
            raise TaskNotFoundError(message=error.message) from None
        except RetinueError as error:
            raise InvalidParamsError(message=f"{error.message}. {error.hint or ''}".strip()) from None
        if config is not None:
            await self._pushes.save(task, config)
        return task, answered

    async def _start(self, message: Message, call: Call) -> TaskRow:
        agent, caller, engine = _agent(message, call), call.caller, self._app.engine
        clock = engine.runtime.clock
        thread = clock.new_id()
        if message.context_id:  # the caller named both ids, so the same message is the same task
            owner = f"{caller.tenant}/{caller.name}/{agent.id}"
            thread = str(uuid5(NAMESPACE_URL, f"{owner}/{message.context_id}/{message.message_id}"))
        task = TaskRow(
            thread=ThreadId(thread),
            tenant=caller.tenant,
            caller=caller.name,
            agent=agent.id,
            context=message.context_id or clock.new_id(),
            created_at=clock.now(),
        )
        await self._app.database.a2a.add(task)
        parts = received(message.parts)
        try:
            await engine.start(
                self._app.pin(agent.id, caller.tenant),
                parts,
                inputs=_inputs(agent, message),
                id=task.thread,
                tenant=caller.tenant,
                workspace=self._workspace(task),
                message_id=message.message_id,
            )
        except Conflict:
            return await self._task(task.thread, call)
        return task

    async def _continue(self, message: Message, task: TaskRow) -> QuestionId | None:
        if message.context_id and message.context_id != task.context:
            raise InvalidParamsError(
                message=f"Task {task.thread} is of context {task.context}, not of {message.context_id}"
            )
        engine, fold = self._app.engine, await current(self._app.engine, task)
        if fold.knows(message.message_id) and fold.question is None:
            return None
        if fold.ended:
            raise UnsupportedOperationError(message=f"Task {task.thread} has ended; start another in its context")
        parts = received(message.parts)
        if (question := fold.question) is None:
            await engine.send(task.thread, parts, id=message.message_id)
            return None
        by = f"{ANSWERED_BY}{message.message_id}"
        try:
            await engine.answer(question.id, _answer(question, parts), tenant=task.tenant, by=by)
        except NotFound:  # it was settled meanwhile
            await engine.send(task.thread, parts, id=message.message_id)
            return None
        return question.id

    async def _task(self, id: str, call: Call) -> TaskRow:
        found = await self._app.database.a2a.get(ThreadId(id))
        if (
            found is None
            or (found.tenant, found.caller) != (call.caller.tenant, call.caller.name)
            or (call.agent is not None and found.agent != call.agent.id)
        ):
            raise TaskNotFoundError(message=f"There is no task {id}")
        return found

    def _workspace(self, task: TaskRow) -> str:
        """A tenant's own folder where the operator gave them one; other tenants' tasks see only their own files."""
        own = [w for w in self._app.settings.serve.workspaces if "{tenant}" in w]
        if own:
            return own[0].replace("{tenant}", task.tenant)
        files = self._app.engine.runtime.files(task.thread)
        return self._app.workspace if task.tenant == DEFAULT_TENANT else str(files)


def card_for(call: Call, *, old: bool, extended: bool = False) -> AgentCard:
    if call.agent is None:
        return directory_card(call.agents.values(), call.url, old=old)
    return agent_card(call.agent, call.url, old=old, extended=extended)


def _call(params: AnyMessage, context: ServerCallContext) -> Call:
    """Whose request it is, once all that must be there is there."""
    validate_proto_required_fields(params)
    message = params.message if isinstance(params, SendMessageRequest) else params
    if any("\0" in getattr(message, name, "") for name in ("id", "task_id", "context_id", "message_id")):
        raise InvalidParamsError(message="Ids hold no NUL characters")
    return call_of(context)


def _agent(message: Message, call: Call) -> AgentDefinition:
    if call.agent is not None:
        return call.agent
    wanted: object = MessageToDict(message.metadata).get("agent")
    if isinstance(wanted, str) and wanted in call.agents:
        return call.agents[wanted]
    if wanted is None and len(call.agents) == 1:
        return next(iter(call.agents.values()))
    known = ", ".join(call.agents) or "none"
    raise InvalidParamsError(message=f"Name an agent in metadata.agent of the message; there are: {known}")


def _inputs(agent: AgentDefinition, message: Message) -> dict[str, object]:
    """Declared inputs come as a data part."""
    if not agent.inputs:
        return {}
    data: list[object] = [MessageToDict(p).get("data") for p in message.parts if p.HasField("data")]
    try:
        return msgspec.convert(data[0], dict[str, object]) if data else {}
    except msgspec.ValidationError:
        raise InvalidParamsError(message="the agent's inputs come as a data part with an object") from None


def _answer(question: QuestionAsked, parts: tuple[Part, ...]) -> object:
    """A choice may be given by its words in any case."""
    text = text_of(parts).strip()
    if question.kind != "choice":
        return text
    return next((choice for choice in question.choices if choice.lower() == text.lower()), text)
