"""OpenAI Responses: turns as input items, answers as output items.

Nothing is stored at the provider (`store: false`): reasoning comes back encrypted,
is kept as opaque data and goes back in front of the item it led to. The phase of a
message (commentary or final answer) is kept the same way. Sampling settings are
left out for models that reason, because those refuse them; `options` can put any
key back, and is merged one level deep (`reasoning: {summary: null}`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from retinue.models import failures
from retinue.models.encode import EMPTY, arguments, encode, media_note, opaque_for, open_object, outcome_text, wire_id
from retinue.ports.model import Answer, Delta, Finish, Fragment, Head, OnDelta, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn

NAME = "openai-responses"

_OURS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "stream",
        "previous_response_id",
        "conversation",
        "prompt",
        "background",
    }
)
_REASONS = re.compile(r"(o\d|gpt-[5-9]|codex)(?!.*-chat)")
_NEVER_REASONS = re.compile(r"gpt-[34]|chatgpt-|.*-chat-latest$")
_INCOMPLETE: Mapping[str, Finish] = {"max_output_tokens": "length", "content_filter": "filtered"}
_STATUS_OF_CODE = {"rate_limit_exceeded": 429, "server_error": 500, "slow_down": 503, "vector_store_timeout": 504}
_TEXT_DELTAS: Mapping[str, Literal["text", "thinking"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}


class OpenAIResponses:
    """The format; it holds nothing."""

    @property
    def name(self) -> str:
        return NAME

    def encode_head(self, head: Head, model: str) -> Fragment:
        bare = model.rsplit("/", 1)[-1]
        fields: dict[str, object] = {"model": model, "store": False}
        if head.system:
            fields["instructions"] = head.system
        if head.tools:
            fields["tools"] = [_tool(t.name, t.description, t.parameters) for t in head.tools]
            if head.tool_choice != "auto":
                fields["tool_choice"] = head.tool_choice
            if not head.parallel_tool_calls:
                fields["parallel_tool_calls"] = False
        if head.max_tokens is not None:
            fields["max_output_tokens"] = head.max_tokens
        if not _REASONS.match(bare):
            fields |= {k: v for k, v in (("temperature", head.temperature), ("top_p", head.top_p)) if v is not None}
        if not _NEVER_REASONS.match(bare):
            fields["include"] = ["reasoning.encrypted_content"]
        if head.reasoning_effort is not None:
            fields["reasoning"] = {"effort": head.reasoning_effort, "summary": "auto"}
        if head.output_schema is not None:
            form = {"type": "json_schema", "name": "result", "strict": False, "schema": msgspec.Raw(head.output_schema)}
            fields["text"] = {"format": form}
        return Fragment(open_object(fields, head.options, _OURS) + b',"input":[')

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        items = _user_items(turn) if turn.role == "user" else _assistant_items(turn, model)
        return Fragment(b",".join(map(encode, items)))

    def path(self, model: str, *, stream: bool) -> str:
        return "/responses"

    def headers(self, key: str | None) -> Mapping[str, str]:
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body(self, request: Request, model: str) -> bytes:
        items = [t.data for t in request.turns if t.data]
        if request.tail:
            items.append(encode(_message("user", [_input_text(request.tail)])))
        ending = b'],"stream":true}' if request.stream else b"]}"
        return b"".join((request.head.data, b",".join(items), ending))

    def reader(self, model: str) -> "ResponsesReader":
        return ResponsesReader(model)

    def parse(self, body: bytes, model: str) -> Answer:
        return _answer(_response(body), {}, model)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        return failures.classify("the provider", status, headers, body)


class _Text(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct, frozen=True):
    type: str
    content: Sequence[_Text] | None = None
    summary: Sequence[_Text] = ()
    encrypted_content: str | None = None
    name: str = ""
    arguments: str = ""
    call_id: str | None = None
    phase: str | None = None


class _Cached(msgspec.Struct, frozen=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class _Reasoned(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Cached | None = None
    output_tokens_details: _Reasoned | None = None


class _Failure(msgspec.Struct, frozen=True):
    code: str | int | None = None
    message: str | None = None
    type: str | None = None


class _Details(msgspec.Struct, frozen=True):
    reason: str = ""


class _Response(msgspec.Struct, frozen=True):
    status: str | None = "completed"
    output: Sequence[msgspec.Raw] = ()
    usage: _Usage | None = None
    error: _Failure | None = None
    incomplete_details: _Details | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    delta: str = ""
    output_index: int = 0
    summary_index: int = 0
    item: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()
    error: _Failure | None = None
    code: str | int | None = None
    message: str | None = None


_event = msgspec.json.Decoder(_Event)
_item = msgspec.json.Decoder(_Item)
_whole = msgspec.json.Decoder(_Response)


class ResponsesReader:
    """Folds the events of one answer. Items count when they are done; deltas are for who watches."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._items: dict[int, msgspec.Raw] = {}
        self._calls = 0
        self._end: _Response | None = None

    def feed(self, event: str, data: bytes, on_delta: OnDelta | None) -> None:
        if data == b"[DONE]":
            return
        try:
            found = _event.decode(data)
        except msgspec.ValidationError:
            return  # of a kind we do not know; what must not be lost is in kinds we do
        except msgspec.DecodeError as error:
            raise ModelError(f"the provider sent an event that is not JSON: {error}", transient=True) from error
        match found.type:
            case "response.output_item.done":
                self._items[found.output_index] = msgspec.Raw(bytes(found.item))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end = _response(bytes(found.response))
            case "error":
                raise _failed(found.error or _Failure(code=found.code, message=found.message))
            case _ if on_delta is not None:
                self._show(found, on_delta)
            case _:
                pass

    def answer(self) -> Answer:
        if self._end is None:
            raise failures.cut("the provider")
        return _answer(self._end, self._items, self._model)

    def _show(self, event: _Event, on_delta: OnDelta) -> None:
        kind = _TEXT_DELTAS.get(event.type)
        if kind is not None:
            on_delta(Delta(kind=kind, text=event.delta))
        elif event.type == "response.reasoning_summary_part.added" and event.summary_index > 0:
            on_delta(Delta(kind="thinking", text="\n\n"))
        elif event.type == "response.output_item.added":
            item = _read_item(event.item)
            if item.type == "function_call":
                on_delta(Delta(kind="call", text=item.name, index=self._calls))
                self._calls += 1


def _response(body: bytes) -> _Response:
    try:
        return _whole.decode(body)
    except msgspec.DecodeError as error:
        raise ModelError(f"the provider sent something that is not a response: {error}", transient=True) from error


def _read_item(raw: msgspec.Raw) -> _Item:
    try:
        return _item.decode(raw)
    except msgspec.DecodeError as error:
        raise ModelError(f"the provider sent an output item that can't be read: {error}", transient=True) from error


def _answer(response: _Response, done: Mapping[int, msgspec.Raw], model: str) -> Answer:
    """Fold items into parts.

    Args:
        done: Items that streamed, by index. The response repeats them, except on
            servers that leave `output` empty; a cut item is only in the response.
    """
    if response.error is not None:
        raise _failed(response.error)
    raws = response.output or [done[index] for index in sorted(done)]
    items = [(raw, _read_item(raw)) for raw in raws]
    parts = tuple(part for raw, item in items for part in _parts(raw, item, model))
    refused = any(c.type == "refusal" for _, item in items for c in item.content or ())
    reason = response.incomplete_details.reason if response.incomplete_details is not None else ""
    return Answer(
        parts=parts,
        finish="refusal" if refused else _finish(response.status or "completed", reason, parts),
        usage=_usage(response.usage or _Usage()),
        raw_finish=reason or response.status or "",
    )


def _finish(status: str, reason: str, parts: Sequence[Part]) -> Finish:
    if status == "incomplete":
        return _INCOMPLETE.get(reason or "max_output_tokens", "other")
    if status != "completed":
        return "other"
    return "calls" if any(isinstance(p, Call) for p in parts) else "stop"


def _usage(usage: _Usage) -> Usage:
    cached = usage.input_tokens_details or _Cached()
    return Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=cached.cached_tokens,
        cache_write=cached.cache_write_tokens,
        thinking=(usage.output_tokens_details or _Reasoned()).reasoning_tokens,
    )


def _parts(raw: msgspec.Raw, item: _Item, model: str) -> Iterator[Part]:
    match item.type:
        case "reasoning":
            text = "\n\n".join(t.text for t in item.summary or item.content or ())
            kept = item.encrypted_content or item.content
            yield Thinking(text=text, opaque=_opaque(_without_status(raw), model) if kept else None)
        case "message":
            text = "".join(c.text or c.refusal for c in item.content or ())
            phase = _opaque(encode({"phase": item.phase}), model) if item.phase else None
            if text:
                yield Text(text=text, opaque=phase)
        case "function_call":
            yield Call(id=CallId(""), tool=item.name, arguments=item.arguments or "{}", wire_id=item.call_id)
        case _:
            return


def _opaque(data: bytes, model: str) -> Opaque:
    return Opaque(format=NAME, model=model, data=msgspec.Raw(data))


def _without_status(raw: msgspec.Raw) -> bytes:
    item = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    item.pop("status", None)
    return encode(item)


def _failed(failure: _Failure) -> ModelError:
    """An error inside a stream has no status; its code says what a status would."""
    status = _STATUS_OF_CODE.get(str(failure.code or failure.type or "server_error"), 400)
    return failures.classify("the provider", status, {}, encode({"error": failure}))


def _tool(name: str, description: str, parameters: Mapping[str, object]) -> Mapping[str, object]:
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": False}


def _user_items(turn: Turn) -> Iterator[Mapping[str, object]]:
    content: list[Mapping[str, object]] = []
    for part in turn.parts:
        match part:
            case Outcome():
                yield {"type": "function_call_output", "call_id": wire_id(part.call), "output": _output(part)}
            case Text():
                if part.text:
                    content.append(_input_text(part.text))
            case Media():
                content.append(_media(part))
            case Thinking() | Call():
                pass
    if content or not turn.parts:
        yield _message("user", content or [_input_text(EMPTY)])


def _assistant_items(turn: Turn, model: str) -> Iterator[object]:
    """Reasoning goes back only in front of what it led to: alone, the API refuses it."""
    pending: list[msgspec.Raw] = []
    for part in turn.parts:
        kept = opaque_for(part.opaque, NAME, model) if isinstance(part, Text | Thinking) else None
        if isinstance(part, Thinking) and kept is not None:
            pending.append(kept)
        if not isinstance(part, Text | Call):
            continue
        yield from pending
        pending.clear()
        if isinstance(part, Call):
            yield _call(part)
            continue
        phase = {} if kept is None else msgspec.json.decode(kept, type=dict[str, str])
        yield {**_message("assistant", [{"type": "output_text", "text": part.text}]), **phase}


def _call(call: Call) -> Mapping[str, object]:
    text = arguments(call.arguments).decode()
    return {"type": "function_call", "call_id": wire_id(call.id), "name": call.tool, "arguments": text}


def _output(outcome: Outcome) -> str | Sequence[Mapping[str, object]]:
    text = outcome_text(outcome)
    return [_input_text(text), *map(_media, outcome.media)] if outcome.media else text


def _message(role: str, content: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    return {"type": "message", "role": role, "content": content}


def _input_text(text: str) -> Mapping[str, object]:
    return {"type": "input_text", "text": text}


def _media(media: Media) -> Mapping[str, object]:
    if media.data is None:
        return _input_text(media_note(media))
    url = f"data:{media.mime};base64,{media.data}"
    if media.mime.startswith("image/"):
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "filename": media.name or "file", "file_data": url}
