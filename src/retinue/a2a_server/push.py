"""Push notifications: where a task's news goes, and sending it there.

A URL is judged when it is saved and again whenever it is used, by the guarded client.
What was delivered is remembered per config, so after a restart delivery goes on where it
was: every update at least once, in order, as A2A's StreamResponse.
"""

import asyncio
import logging
from contextlib import aclosing

import msgspec
from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict, MessageToJson, Parse

from retinue.a2a_server.tasks import Update
from retinue.a2a_server.watch import fresh
from retinue.app.retinue import Retinue
from retinue.net.client import GuardedClient
from retinue.net.decoding import FetchFailed
from retinue.ports.a2a import PushRow, TaskRow
from retinue.runtime.follow import Happened
from retinue.schema.errors import Denied
from retinue.schema.ids import Seq, ThreadId

log = logging.getLogger("retinue.a2a")
_TRIES = 4
_SECONDS = 15.0
MAX_CONFIGS = 20


class Pushes:
    def __init__(self, app: Retinue, client: GuardedClient) -> None:
        self._app = app
        self._client = client
        self._senders: dict[ThreadId, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Go on with what an earlier process left."""
        for thread in dict.fromkeys(row.thread for row in await self._app.database.a2a.pushes()):
            if (task := await self._app.database.a2a.get(thread)) is not None:
                self._send(task)

    async def stop(self) -> None:
        for sender in self._senders.values():
            sender.cancel()
        await asyncio.gather(*self._senders.values(), return_exceptions=True)

    async def checked(self, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Refuse a URL that may not be reached. One that can't be looked up now is judged when it is used."""
        try:
            decision = await self._client.check(config.url)
        except FetchFailed:
            return config
        if decision.verdict != "allow":
            raise InvalidParamsError(message=f"Push notifications can't go to {config.url}: {decision.reason}")
        return config

    async def save(self, task: TaskRow, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        kept = TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.task_id, kept.id = task.thread, config.id or task.thread
        known = {row.id for row in await self._app.database.a2a.pushes(task.thread)}
        if kept.id not in known and len(known) >= MAX_CONFIGS:
            raise InvalidParamsError(message=f"A task has at most {MAX_CONFIGS} push notification configs")
        sealed = self._app.engine.runtime.seal(MessageToJson(kept, indent=None))
        row = await self._app.engine.runtime.store.row(task.thread)
        sent = 0 if row is None or row.head <= 1 else row.head
        await self._app.database.a2a.set_push(PushRow(thread=task.thread, id=kept.id, config=sealed, sent=sent))
        self._send(task)
        return kept

    async def of(self, thread: ThreadId) -> list[TaskPushNotificationConfig]:
        return [self._opened(row) for row in await self._app.database.a2a.pushes(thread)]

    async def delete(self, thread: ThreadId, id: str) -> None:
        await self._app.database.a2a.delete_push(thread, id)

    def _opened(self, row: PushRow) -> TaskPushNotificationConfig:
        return Parse(self._app.engine.runtime.unseal(row.config), TaskPushNotificationConfig())

    def _send(self, task: TaskRow) -> None:
        if task.thread not in self._senders:
            sender = self._senders[task.thread] = asyncio.create_task(self._follow(task))
            sender.add_done_callback(lambda _: self._senders.pop(task.thread, None))

    async def _follow(self, task: TaskRow) -> None:
        """From the start of the log, so that the fold knows what came before; what was sent is not sent again."""
        fold, seen = fresh(self._app.engine, task), 0
        items = self._app.engine.follow(task.thread, tree=True, deltas=False)
        async with aclosing(items):
            async for item in items:
                if not isinstance(item, Happened):
                    continue
                updates = fold.apply(item.thread, item.seq, item.event)
                seen = item.seq if item.thread == task.thread else seen
                if updates:
                    await self._deliver(task, seen, updates)
                if fold.ended:
                    return

    async def _deliver(self, task: TaskRow, seq: Seq, updates: list[Update]) -> None:
        for row in await self._app.database.a2a.pushes(task.thread):
            if row.sent >= seq:
                continue
            config = self._opened(row)
            for update in updates:
                await self._post(config, update)
            await self._app.database.a2a.pushed(row.thread, row.id, seq)

    async def _post(self, config: TaskPushNotificationConfig, update: Update) -> None:
        headers = {"Content-Type": "application/a2a+json"}
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        if config.authentication.scheme and config.authentication.credentials:
            headers["Authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        body = msgspec.json.encode(MessageToDict(to_stream_response(update)))
        for attempt in range(_TRIES):
            try:
                answer = await self._client.fetch("POST", config.url, headers=headers, body=body, seconds=_SECONDS)
            except Denied as denied:
                log.warning("push notification of task %s refused: %s", config.task_id, denied.message)
                return
            except FetchFailed as failed:
                problem = str(failed)
            else:
                if answer.status < 500 and answer.status != 429:
                    return
                problem = f"status {answer.status}"
            log.info("push notification of task %s failed: %s", config.task_id, problem)
            await self._app.engine.runtime.clock.sleep(2.0**attempt)
        log.warning("push notification of task %s given up", config.task_id)
