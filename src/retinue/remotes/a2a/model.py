"""A remote agent as a model: its thread asks it once, and its answer is how the run ends.

So a remote agent is called, cancelled, budgeted, followed and recovered like any other. The ids
of the remote context and task stand in the answer (`Opaque`) and come back with the next
request. Before anything is sent, the remote is asked whether it knows the message already: ids derive from
what is asked, so a request that is repeated after a crash finds its task instead of starting another.
"""

import asyncio
import base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from uuid import NAMESPACE_URL, uuid5

import msgspec
from a2a.types.a2a_pb2 import CancelTaskRequest, Message, Role, Task, TaskState
from a2a.types.a2a_pb2 import Part as WirePart
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict

from retinue.ports.model import Answer, Delta, Fragment, Head, OnDelta, Request
from retinue.remotes.a2a.connection import Connections
from retinue.remotes.a2a.exchange import ASKING, Exchange, Sent
from retinue.schema.agent import AgentDefinition
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError, RetinueError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Turn, text_of

FORMAT = "a2a"
COMPLETE = "complete_agent_execution"
ASK = "request_user_input"
_SUCCESS = TaskState.TASK_STATE_COMPLETED
_INLINE = 20_000
_CANCEL_SECONDS = 15.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the log keeps of the remote side."""

    context: str
    task: str = ""
    open: bool = False
    """The task waits for an answer."""


class _Head(msgspec.Struct, frozen=True):
    tools: tuple[str, ...]


class RemoteModel:
    format = FORMAT
    window = 100_000_000
    max_output = 0

    def __init__(self, definition: AgentDefinition, connections: Connections, running: dict[str, Message]) -> None:
        """
        Args:
            definition: Of kind remote.
            connections: Where its card and client come from.
            running: Our message's id → what was sent for it, its task where known; whoever cancels looks here.
        """
        self.name = f"a2a/{definition.id}"
        self._definition = definition
        self._connections = connections
        self._running = running

    def encode_head(self, head: Head) -> Fragment:
        return Fragment(msgspec.json.encode(_Head(tuple(tool.name for tool in head.tools))))

    def encode_turn(self, turn: Turn) -> Fragment:
        return Fragment(msgspec.json.encode(turn))

    def price(self, usage: Usage) -> int | None:
        """What the remote spends is on its own account."""
        return 0

    async def ask(self, request: Request, on_delta: OnDelta | None = None) -> Answer:
        turns = [msgspec.json.decode(fragment.data, type=Turn) for fragment in request.turns]
        tools = msgspec.json.decode(request.head.data, type=_Head).tools
        last = turns[-1]
        kept = kept_in(turns) or Kept(context=_id(f"{self._definition.id}/{request.message_id or ''}"))
        refused = [p for p in last.parts if isinstance(p, Outcome) and p.tool == ASK and p.status != "ok"]
        if kept.open and refused:
            await self.cancel(Message(task_id=kept.task))
            return self._end(kept, f"The agent asked, and nobody answered: {refused[0].text}", "FAILED", tools)
        message = Message(
            message_id=_id(f"{kept.context}/{len(turns)}/{sha256(request.turns[-1].data).hexdigest()}"),
            context_id=kept.context,
            task_id=kept.task if kept.open else "",
            role=Role.ROLE_USER,
            parts=_said(last.parts),
        )
        place = request.message_id or message.message_id
        self._running[place] = Message(message_id=message.message_id, context_id=kept.context, task_id=message.task_id)
        exchange = Exchange(self._definition, self._connections, self._running[place])
        try:
            got = await exchange.send(message, lambda text: _tell(on_delta, text))
        except ModelError:
            raise
        except RetinueError as error:
            raise ModelError(f"{error.message}; {error.hint}" if error.hint else error.message) from error
        return self._answer(kept, got, tools)

    async def cancel(self, message: Message) -> None:
        """Cancel what a message started. Best effort: the remote may be gone, or not know it."""
        exchange = Exchange(self._definition, self._connections, message)
        with suppress(RetinueError, A2AError, TimeoutError, NotImplementedError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                held = await self._connections.get(self._definition)
                found = None if message.task_id else await exchange.known(held, message)
                if id := message.task_id or (found.id if found else ""):
                    await held.client.cancel_task(CancelTaskRequest(id=id))

    def _answer(self, kept: Kept, got: Sent, tools: tuple[str, ...]) -> Answer:
        if isinstance(got, Message):
            kept = Kept(context=got.context_id or kept.context)
            return self._end(kept, _text(got.parts) or "(an empty message)", "SUCCESS", tools)
        kept = Kept(context=got.context_id or kept.context, task=got.id, open=got.status.state in ASKING)
        said = _text(got.status.message.parts)
        if kept.open:
            return self._call(
                kept, "", ASK, {"prompt": said or "The remote agent wants to know more.", **_choices(got)}
            )
        text = _text([part for artifact in got.artifacts for part in artifact.parts])
        if got.status.state == _SUCCESS:
            return self._end(kept, text or said or "(no text)", "SUCCESS", tools, data=_data(got))
        state = TaskState.Name(got.status.state).removeprefix("TASK_STATE_").lower()
        return self._end(kept, said or text or f"The remote task is {state}.", "FAILED", tools)

    def _end(self, kept: Kept, text: str, status: str, tools: tuple[str, ...], *, data: object = None) -> Answer:
        """A call of the completion tool where one is offered; else the words themselves."""
        if COMPLETE not in tools:
            words = text if status == "SUCCESS" else f"The remote agent failed: {text}"
            return Answer(parts=(Text(text=words, opaque=self._opaque(kept)),), finish="stop", usage=Usage())
        output = self._definition.output
        result = data if output is not None and data is not None else text
        metadata = {"a2a": {"task": kept.task, "context": kept.context}}
        arguments = {output.name if output else "result": result, "status": status, "metadata": metadata}
        return self._call(kept, text, COMPLETE, arguments)

    def _call(self, kept: Kept, text: str, tool: str, arguments: Mapping[str, object]) -> Answer:
        written = msgspec.json.encode(arguments).decode()
        call = Call(id=CallId(""), tool=tool, arguments=written, opaque=self._opaque(kept))
        parts: tuple[Part, ...] = (Text(text=text), call) if text else (call,)
        return Answer(parts=parts, finish="calls", usage=Usage())

    def _opaque(self, kept: Kept) -> Opaque:
        return Opaque(format=FORMAT, model=self.name, data=msgspec.Raw(msgspec.json.encode(kept)))


def kept_in(turns: list[Turn]) -> Kept | None:
    """What the newest answer says of the remote side."""
    for turn in reversed(turns):
        for part in turn.parts:
            if isinstance(part, Text | Call) and part.opaque is not None and part.opaque.format == FORMAT:
                return msgspec.json.decode(part.opaque.data, type=Kept)
    return None


def _said(parts: tuple[Part, ...]) -> list[WirePart]:
    answers = [WirePart(text=p.text) for p in parts if isinstance(p, Outcome) and p.tool == ASK]
    found = [WirePart(text=text)] if (text := text_of(parts)) else []
    for part in parts:
        if isinstance(part, Media) and part.data is not None:
            raw = base64.b64decode(part.data)
            found.append(WirePart(raw=raw, media_type=part.mime, filename=part.name or ""))
    return [*answers, *found] or [WirePart(text="")]


def _text(parts: Iterable[WirePart]) -> str:
    return "\n\n".join(text for part in parts if (text := _words(part)))


def _words(part: WirePart) -> str:
    """A part as text; a file that is no text is named only."""
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "url":
            return f"{part.filename or 'File'}: {part.url}"
        case "data":
            return msgspec.json.encode(MessageToDict(part).get("data")).decode()
        case "raw" if part.media_type.startswith("text/") and len(part.raw) <= _INLINE:
            return f"{part.filename or 'File'}:\n{part.raw.decode('utf-8', 'replace')}"
        case _:
            return f"{part.filename or 'File'} ({part.media_type or 'unknown type'}, {len(part.raw)} bytes)"


def _data(task: Task) -> object:
    parts = [part for artifact in task.artifacts for part in artifact.parts if part.HasField("data")]
    return MessageToDict(parts[0]).get("data") if len(parts) == 1 else None


def _choices(task: Task) -> dict[str, object]:
    for part in task.status.message.parts:
        if part.HasField("data"):
            data: object = MessageToDict(part).get("data")
            try:
                choices = msgspec.convert(data, dict[str, list[str]])["choices"]
            except (msgspec.ValidationError, KeyError):
                continue
            return {"inputType": "choice", "choices": choices}
    return {}


def _tell(on_delta: OnDelta | None, text: str) -> None:
    if on_delta is not None and text:
        on_delta(Delta(kind="text", text=text))


def _id(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"retinue/{name}"))
