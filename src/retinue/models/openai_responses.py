"""OpenAI Responses: turns as input items, answers as output items.

Nothing is stored at the provider (`store: false`): reasoning comes back encrypted,
is kept as opaque data and goes back in front of the item it led to. The phase of a
message (commentary or final answer) is kept the same way. `options` can put any key
back that is left out here, and is merged one level deep (`reasoning: {summary: null}`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from retinue.models import failures, wire
from retinue.ports.model import Answer, Finish, Fragment, Head, OnDelta, Request
from retinue.schema.completion import Usage
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Outcome, Part, Text, Thinking, Turn

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
_NEVER_REASONS = re.compile(r"(?:.*/)?(?:gpt-[34]|chatgpt-|.*-chat-latest$)")
_FINISHES: Mapping[str | None, Finish] = {
    "completed": "stop",
    None: "stop",
    "incomplete": "length",
    "max_output_tokens": "length",
    "content_filter": "filtered",
}
_TEXT_DELTAS: Mapping[str, wire.Told] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


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


class _Response(msgspec.Struct, frozen=True):
    status: str | None = "completed"
    output: Sequence[msgspec.Raw] = ()
    usage: wire.Counts | None = None
    error: object = None
    incomplete_details: Mapping[str, object] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    delta: object = None
    output_index: int = 0
    summary_index: int = 0
    item: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()
    error: object = None


_event = msgspec.json.Decoder(_Event)
_item = msgspec.json.Decoder(_Item)
_whole = msgspec.json.Decoder(_Response)


class ResponsesReader(wire.Reader):
    """Folds the events of one answer. Items count when they are done; deltas are for who watches."""

    format = NAME

    def __init__(self, model: str, on_delta: OnDelta | None = None) -> None:
        super().__init__(model, on_delta)
        self._items: dict[int, msgspec.Raw] = {}
        self._end: _Response | None = None

    def feed(self, data: bytes) -> None:
        if data == b"[DONE]":
            return
        event = self._decoded(_event, data)
        if (told := _TEXT_DELTAS.get(event.type)) is not None:
            self._tell(told, str(event.delta))
        elif event.error or event.type == "error":
            raise failures.classify_event(data)
        elif event.type == "response.output_item.done":
            self._items[event.output_index] = event.item
        elif event.type in _ENDS or not event.type:
            # Without a type it is not an event but a whole response.
            self._end = self._decoded(_whole, bytes(event.response) if event.type else data)
        elif event.type == "response.reasoning_summary_part.added" and event.summary_index > 0:
            self._tell("thinking", "\n\n")
        elif event.type == "response.output_item.added":
            item = self._decoded(_item, bytes(event.item))
            if item.type == "function_call":
                self._tell_call(item.name)

    def answer(self) -> Answer:
        """Fold items into parts.

        The response repeats the items that streamed, except on servers that leave
        `output` empty; a cut item is only in the response.
        """
        response = self._end
        if response is not None and response.error:
            raise failures.classify_event(wire.encode(response))
        if response is None or response.status == "failed":
            raise failures.cut()
        raws = response.output or [self._items[index] for index in sorted(self._items)]
        items = [(raw, self._decoded(_item, bytes(raw))) for raw in raws]
        parts = tuple(part for raw, item in items for part in self._parts(raw, item))
        refused = any(c.type == "refusal" for _, item in items for c in item.content or ())
        reason = str((response.incomplete_details or {}).get("reason") or "")
        return Answer(
            parts=parts,
            finish="refusal" if refused else wire.finish_of(_FINISHES.get(reason or response.status, "other"), parts),
            usage=_usage(response.usage or {}),
            raw_finish=reason or response.status or "",
        )

    def _parts(self, raw: msgspec.Raw, item: _Item) -> Iterator[Part]:
        match item.type:
            case "reasoning":
                text = "\n\n".join(t.text for t in item.summary or item.content or ())
                kept = item.encrypted_content or item.content
                yield Thinking(text=text, opaque=self._opaque(_without_status(raw)) if kept else None)
            case "message":
                text = "".join(c.text or c.refusal for c in item.content or ())
                phase = self._opaque(wire.encode({"phase": item.phase})) if item.phase else None
                if text:
                    yield Text(text=text, opaque=phase)
            case "function_call":
                yield Call(id=CallId(""), tool=item.name, arguments=item.arguments or "{}", wire_id=item.call_id)
            case _:
                return


def _usage(usage: wire.Counts) -> Usage:
    return Usage(
        input=wire.tokens(usage, "input_tokens"),
        output=wire.tokens(usage, "output_tokens"),
        cache_read=wire.tokens(usage, "input_tokens_details", "cached_tokens"),
        cache_write=wire.tokens(usage, "input_tokens_details", "cache_write_tokens"),
        thinking=wire.tokens(usage, "output_tokens_details", "reasoning_tokens"),
    )


def _without_status(raw: msgspec.Raw) -> bytes:
    item = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    item.pop("status", None)
    return wire.encode(item)


class OpenAIResponses(wire.Format):
    _reader = ResponsesReader
    _path = "/responses"

    def encode_head(self, head: Head, model: str) -> Fragment:
        effort, schema = head.reasoning_effort, head.output_schema
        form = {"type": "json_schema", "name": "result", "strict": False, "schema": msgspec.Raw(schema or b"{}")}
        fields = {
            **wire.openai_settings(head, model),
            "store": False,
            "instructions": head.system or None,
            "tools": [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                    "strict": False,
                }
                for t in head.tools
            ]
            or None,
            "max_output_tokens": head.max_tokens,
            "include": None if _NEVER_REASONS.match(model) else ["reasoning.encrypted_content"],
            "reasoning": None if effort is None else {"effort": effort, "summary": "auto"},
            "text": None if schema is None else {"format": form},
        }
        return Fragment(wire.open_object(fields, head.options, _OURS) + b',"input":[')

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        items = _user_items(turn) if turn.role == "user" else _assistant_items(turn, model)
        return Fragment(b",".join(map(wire.encode, items)))

    def _add_tail(self, turns: list[bytes], request: Request, model: str) -> None:
        turns.append(wire.encode(_message("user", [_input_text(request.tail)])))


def _user_items(turn: Turn) -> Iterator[Mapping[str, object]]:
    outcomes = wire.outcomes_of(turn)
    for outcome in outcomes:
        yield {"type": "function_call_output", "call_id": wire.call_id(outcome.call), "output": _output(outcome)}
    content = wire.said(turn, _input_text, _media)
    if content or not outcomes:
        yield _message("user", content or [_input_text(wire.EMPTY)])


def _assistant_items(turn: Turn, model: str) -> Iterator[object]:
    """Reasoning goes back only in front of what it led to: alone, the API refuses it."""
    pending: list[msgspec.Raw] = []
    for part in turn.parts:
        kept = wire.opaque_for(part.opaque, NAME, model) if isinstance(part, Text | Thinking) else None
        match part:
            case Thinking():
                pending += [kept] if kept is not None else []
                continue
            case Call():
                text = wire.arguments(part.arguments).decode()
                item = {
                    "type": "function_call",
                    "call_id": wire.call_id(part.id),
                    "name": wire.tool_name(part.tool),
                    "arguments": text,
                }
            case Text() | Media():
                text = part.text if isinstance(part, Text) else wire.media_note(part)
                phase = {} if kept is None else msgspec.json.decode(kept, type=dict[str, str])
                item = {**_message("assistant", [{"type": "output_text", "text": text}]), **phase}
            case Outcome():
                continue
        yield from pending
        yield item
        pending.clear()


def _output(outcome: Outcome) -> str | Sequence[Mapping[str, object]]:
    text = wire.outcome_text(outcome)
    return [_input_text(text), *map(_media, outcome.media)] if outcome.media else text


def _message(role: str, content: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    return {"type": "message", "role": role, "content": content}


def _input_text(text: str) -> Mapping[str, object]:
    return {"type": "input_text", "text": text}


def _media(media: Media) -> Mapping[str, object]:
    if media.data is not None and media.mime in wire.IMAGES:
        return {"type": "input_image", "image_url": wire.data_url(media)}
    if media.data is not None and media.mime == "application/pdf":
        return {"type": "input_file", "filename": media.name or "file", "file_data": wire.data_url(media)}
    return _input_text(wire.media_text(media))
