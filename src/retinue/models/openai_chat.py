"""OpenAI Chat Completions, as OpenAI and the many servers that copy it speak it.

A user turn becomes the tools' messages and then one user message; what is volatile
is spliced into that last message, so that roles never double. Thinking goes back
under the name it came with, because some servers refuse a tool loop without it.
Compatible servers differ mostly in what they answer: thinking comes under three
names, calls come without an index or an id or all in one chunk, usage comes late or
never.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from retinue.models import failures, wire
from retinue.ports.model import Answer, Finish, Fragment, Head, OnDelta, Request
from retinue.schema.completion import Usage
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Part, Text, Thinking, Turn

NAME = "openai-chat"

_OURS = frozenset(
    {"model", "messages", "tools", "stream", "stream_options", "functions", "plugins", "web_search_options"}
)
_FINISHES: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), "stop"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "calls"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "safety", "sensitive"), "filtered"),
    "refusal": "refusal",
}
_BROKEN = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""The server gave up in the middle and says so as if it were an end."""
_MISTRAL = re.compile(r"(?:.*/)?(?:open-)?(?:mi[sx]tral|ministral|codestral|devstral|magistral|pixtral)", re.IGNORECASE)
_BETWEEN = {"role": "assistant", "content": "Done."}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, msgspec.Raw] | None = None


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    """A delta, or a whole message: servers send both in the same shape."""

    content: str | list[msgspec.Raw] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, object]] | None = None
    refusal: str | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None
    error: object = None


class _Chunk(msgspec.Struct):
    kind: str | None = msgspec.field(default=None, name="object")
    choices: list[_Choice] | None = None
    usage: wire.Counts | None = None
    error: object = None


class _Piece(msgspec.Struct):
    """An item of a content list (Mistral)."""

    text: str = ""
    thinking: "list[_Piece]" = []


_chunk = msgspec.json.Decoder(_Chunk)
_piece = msgspec.json.Decoder(_Piece)


class _OpenCall:
    __slots__ = ("arguments", "id", "name")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.arguments: list[str] = []


class ChatReader(wire.Reader):
    """Folds the chunks of one answer, or its one whole body."""

    format = NAME

    def __init__(self, model: str, on_delta: OnDelta | None = None) -> None:
        super().__init__(model, on_delta)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thinking_field = ""
        self._details: list[dict[str, object]] = []
        self._refused = False
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._finish: str | None = None
        self._done = False
        self._usage: wire.Counts = {}

    def feed(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._done = True
            return
        chunk = self._decoded(_chunk, data)
        if chunk.error or chunk.kind == "error":
            raise failures.classify_event(data)
        if chunk.usage is not None:
            self._usage = chunk.usage
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        if choice.error:
            raise failures.classify_event(wire.encode(choice))
        heard = choice.delta or choice.message
        if heard is not None:
            self._hear(heard)
        if choice.finish_reason:
            self._finish = choice.finish_reason

    def answer(self) -> Answer:
        raw, parts = self._finish or "", tuple(self._parts())
        # Some servers never say why they ended, but then they have said something.
        if raw in _BROKEN or not (raw or (self._done and parts)):
            raise failures.cut(raw)
        return Answer(
            parts=parts,
            finish="refusal" if self._refused else wire.finish_of(_FINISHES.get(raw, "other"), parts),
            usage=_usage(self._usage),
            raw_finish=raw,
        )

    def _hear(self, heard: _Said) -> None:
        content = heard.content
        if content and isinstance(content, str):
            self._text.append(content)
            self._tell("text", content)
        elif content:
            self._hear_list(content)
        if heard.reasoning_content:
            self._think(heard.reasoning_content, "reasoning_content")
        elif heard.reasoning:
            self._think(heard.reasoning, "reasoning")
        for detail in heard.reasoning_details or ():
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str) and not (heard.reasoning_content or heard.reasoning):
                self._think(text, "")
            self._add_detail(detail)
        if heard.refusal:
            self._refused = True
            self._text.append(heard.refusal)
            self._tell("text", heard.refusal)
        for piece in heard.tool_calls or ():
            self._call(piece)

    def _hear_list(self, content: list[msgspec.Raw]) -> None:
        for raw in content:
            piece = _piece.decode(raw)
            for thought in piece.thinking:
                self._think(thought.text, "")
            self._text.append(piece.text)
            self._tell("text", piece.text)

    def _think(self, text: str, field: str) -> None:
        self._thinking.append(text)
        self._thinking_field = field
        self._tell("thinking", text)

    def _add_detail(self, detail: dict[str, object]) -> None:
        """Pieces of one detail become one again: its signature is of the whole text."""
        last = self._details[-1] if self._details else {}
        same = detail.get("index") is not None and all(detail.get(k) == last.get(k) for k in ("type", "index"))
        if not same:
            self._details.append(detail)
            return
        for key, value in detail.items():
            before = last.get(key)
            grows = key in ("text", "summary", "data") and isinstance(before, str) and isinstance(value, str)
            last[key] = f"{before}{value}" if grows else before if value is None else value

    def _call(self, piece: _CallPiece) -> None:
        """Add a piece to the call it belongs to: by index, else to the newest.

        Some servers number every call 0 and tell them apart by id only, some make up
        an id for every piece; some give neither, and then a name begins a call.
        """
        function = piece.function or _Function()
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        else:
            known = self._calls[-1] if self._calls and not (function.name and not piece.id) else None
        if known is None or (piece.id and known.id and piece.id != known.id and function.name):
            known = _OpenCall(piece.id or "", function.name or "")
            self._calls.append(known)
            self._tell_call(known.name)
        if piece.index is not None:
            self._by_index[piece.index] = known
        known.id = known.id or piece.id or ""
        known.name = known.name or function.name or ""
        if isinstance(function.arguments, str):
            known.arguments.append(function.arguments)
        elif function.arguments is not None:
            known.arguments.append(wire.encode(function.arguments).decode())

    def _parts(self) -> Iterator[Part]:
        if self._thinking or self._details:
            yield Thinking(text="".join(self._thinking), opaque=self._kept())
        if text := "".join(self._text):
            yield Text(text=text)
        for call in self._calls:
            text = "".join(call.arguments).strip() or "{}"
            yield Call(id=CallId(""), tool=call.name, arguments=text, wire_id=call.id or None)

    def _kept(self) -> Opaque | None:
        """A list that goes back instead of the thinking, or the name of the field that the thinking came in."""
        kept = self._details or self._thinking_field
        return self._opaque(wire.encode(kept)) if kept else None


def _usage(usage: wire.Counts) -> Usage:
    sent = wire.tokens(usage, "prompt_tokens")
    return Usage(
        input=sent,
        # Some leave reasoning out of what they call completion, but not out of the total.
        output=max(wire.tokens(usage, "completion_tokens"), wire.tokens(usage, "total_tokens") - sent),
        cache_read=wire.tokens(usage, "prompt_tokens_details", "cached_tokens")
        or wire.tokens(usage, "prompt_cache_hit_tokens")
        or wire.tokens(usage, "cached_tokens"),
        cache_write=wire.tokens(usage, "prompt_tokens_details", "cache_write_tokens"),
        thinking=wire.tokens(usage, "completion_tokens_details", "reasoning_tokens"),
    )


class OpenAIChat(wire.Format):
    _reader = ChatReader
    _path = "/chat/completions"
    _stream_end = b'],"stream":true,"stream_options":{"include_usage":true}}'

    def encode_head(self, head: Head, model: str) -> Fragment:
        fields = {
            **wire.openai_settings(head, model),
            "tools": [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in head.tools
            ]
            or None,
            "reasoning_effort": head.reasoning_effort,
            "max_completion_tokens" if self._renamed else "max_tokens": head.max_tokens,
        }
        if head.output_schema is not None:
            schema = {"name": "result", "schema": msgspec.Raw(head.output_schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        system = wire.encode({"role": "system", "content": head.system}) + b"," if head.system else b""
        return Fragment(wire.open_object(fields, head.options, _OURS) + b',"messages":[' + system)

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        if turn.role == "assistant":
            return Fragment(wire.encode(_assistant(turn, model)))
        *others, last = _user(turn, model)
        data = b",".join(map(wire.encode, (*others, last)))
        # Before the end of the last user message's content, a string or a list.
        return Fragment(data, mark=len(data) - 2 if last["role"] == "user" else -1)

    def _add_tail(self, turns: list[bytes], request: Request, model: str) -> None:
        text, mark = request.tail, request.turns[-1].mark if request.turns else -1
        if mark < 0:
            between = [wire.encode(_BETWEEN)] if turns and _is_mistral(model) else []
            turns += [*between, wire.encode({"role": "user", "content": text})]
            return
        data = turns[-1]
        more = wire.encode(f"\n\n{text}")[1:-1] if data[mark : mark + 1] == b'"' else b"," + wire.encode(_text(text))
        turns[-1] = data[:mark] + more + data[mark:]


@cache
def _is_mistral(model: str) -> bool:
    """Whether its server wants ids of nine letters, and the assistant's word between a tool's and the user's."""
    return _MISTRAL.match(model) is not None


def _assistant(turn: Turn, model: str) -> Mapping[str, object]:
    texts = [p.text if isinstance(p, Text) else wire.media_note(p) for p in turn.parts if isinstance(p, Text | Media)]
    calls = [
        {
            "id": _id(p.id, model),
            "type": "function",
            "function": {"name": wire.tool_name(p.tool), "arguments": wire.arguments(p.arguments).decode()},
        }
        for p in turn.parts
        if isinstance(p, Call)
    ]
    message: dict[str, object] = {"role": "assistant", "content": "".join(texts) or (None if calls else wire.EMPTY)}
    for part in turn.parts:
        if isinstance(part, Thinking) and (kept := wire.opaque_for(part.opaque, NAME, model)) is not None:
            details = bytes(kept).startswith(b"[")
            message |= {"reasoning_details": kept} if details else {msgspec.json.decode(kept, type=str): part.text}
    if calls:
        message["tool_calls"] = calls
    return message


def _user(turn: Turn, model: str) -> Iterator[Mapping[str, object]]:
    """At least one message: the outcomes, then what the user and the outcomes' files say.

    A tool's message can hold text only, so its files follow in the user's.
    """
    outcomes = wire.outcomes_of(turn)
    content: list[Mapping[str, object]] = []
    for outcome in outcomes:
        yield {"role": "tool", "tool_call_id": _id(outcome.call, model), "content": wire.outcome_text(outcome)}
        if outcome.media:
            content += [_text(f"From the call of {outcome.tool}:"), *map(_media, outcome.media)]
    content += wire.said(turn, _text, _media)
    if outcomes and content and _is_mistral(model):
        yield _BETWEEN
    if content and all("text" in item for item in content):
        yield {"role": "user", "content": "\n\n".join(str(item["text"]) for item in content)}
    elif content or not outcomes:
        yield {"role": "user", "content": content or wire.EMPTY}


def _id(call: CallId, model: str) -> str:
    return hashlib.sha256(call.encode()).hexdigest()[:9] if _is_mistral(model) else wire.call_id(call)


def _text(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}


def _media(media: Media) -> Mapping[str, object]:
    if media.data is not None and media.mime in wire.IMAGES:
        return {"type": "image_url", "image_url": {"url": wire.data_url(media)}}
    if media.data is not None and media.mime == "application/pdf":
        return {"type": "file", "file": {"filename": media.name or "file", "file_data": wire.data_url(media)}}
    return _text(wire.media_text(media))
