"""Reads answers of Chat Completions, streamed or whole.

Compatible servers differ mostly here: thinking comes under three names, calls come
without an index or an id or all in one chunk, usage comes late or never.
"""

from collections.abc import Iterator, Mapping

import msgspec

from retinue.models import failures
from retinue.models.encode import decode, encode
from retinue.ports.model import Answer, Delta, Finish, OnDelta
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Opaque, Part, Text, Thinking

NAME = "openai-chat"

_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "filtered",
}


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
    reasoning_details: list[msgspec.Raw] | None = None
    refusal: str | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


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


class ChatReader:
    """Folds the chunks of one answer, or its one whole body."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thinking_field = ""
        self._details: list[bytes] = []
        self._refused = False
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._finish: str | None = None
        self._done = False
        self._usage = _Usage()

    def feed(self, event: str, data: bytes, on_delta: OnDelta | None) -> None:
        if data == b"[DONE]":
            self._done = True
            return
        try:
            chunk = decode(_chunk, data)
        except msgspec.DecodeError as error:
            raise ModelError(f"the provider sent what is not a chunk of an answer: {error}", transient=True) from error
        if bytes(chunk.error) != b"null":
            raise failures.classify_event("the provider", data)
        if chunk.usage is not None:
            self._usage = chunk.usage
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        said = choice.delta or choice.message
        if said is not None:
            self._hear(said, on_delta)
        if choice.finish_reason:
            self._finish = choice.finish_reason

    def answer(self) -> Answer:
        if self._finish is None and not self._done:
            raise failures.cut("the provider")
        raw = self._finish or ""
        finish = _FINISH.get(raw, "other")
        if self._calls and finish in ("stop", "other"):
            finish = "calls"
        return Answer(
            parts=tuple(self._parts()),
            finish="refusal" if self._refused else finish,
            usage=_usage(self._usage),
            raw_finish=raw,
        )

    def _hear(self, said: _Said, on_delta: OnDelta | None) -> None:
        if said.content:
            self._hear_content(said.content, on_delta)
        if said.reasoning_content:
            self._think(said.reasoning_content, "reasoning_content", on_delta)
        elif said.reasoning:
            self._think(said.reasoning, "reasoning", on_delta)
        if said.reasoning_details:
            self._details.extend(map(bytes, said.reasoning_details))
        if said.refusal:
            self._refused = True
            self._say(said.refusal, on_delta)
        for piece in said.tool_calls or ():
            self._call(piece, on_delta)

    def _hear_content(self, content: str | list[msgspec.Raw], on_delta: OnDelta | None) -> None:
        if isinstance(content, str):
            self._say(content, on_delta)
            return
        for raw in content:
            piece = _piece.decode(raw)
            for thought in piece.thinking:
                self._think(thought.text, "", on_delta)
            if piece.text:
                self._say(piece.text, on_delta)

    def _say(self, text: str, on_delta: OnDelta | None) -> None:
        self._text.append(text)
        if on_delta is not None:
            on_delta(Delta(kind="text", text=text))

    def _think(self, text: str, field: str, on_delta: OnDelta | None) -> None:
        self._thinking.append(text)
        self._thinking_field = field
        if on_delta is not None:
            on_delta(Delta(kind="thinking", text=text))

    def _call(self, piece: _CallPiece, on_delta: OnDelta | None) -> None:
        """Add a piece to the call it belongs to: by index, else to the newest.

        Some servers number every call 0 and tell them apart by id only; some give
        neither, and then a name begins a call.
        """
        function = piece.function or _Function()
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        else:
            known = self._calls[-1] if self._calls and not (function.name and not piece.id) else None
        if known is None or (piece.id and known.id and piece.id != known.id):
            known = _OpenCall(piece.id or "", function.name or "")
            self._calls.append(known)
            if on_delta is not None:
                on_delta(Delta(kind="call", text=known.name, index=len(self._calls) - 1))
        if piece.index is not None:
            self._by_index[piece.index] = known
        known.id = known.id or piece.id or ""
        known.name = known.name or function.name or ""
        if isinstance(function.arguments, str):
            known.arguments.append(function.arguments)
        elif function.arguments is not None:
            known.arguments.append(encode(function.arguments).decode())

    def _parts(self) -> Iterator[Part]:
        if self._thinking or self._details:
            yield Thinking(text="".join(self._thinking), opaque=self._opaque())
        if text := "".join(self._text):
            yield Text(text=text)
        for call in self._calls:
            text = "".join(call.arguments).strip() or "{}"
            yield Call(id=CallId(""), tool=call.name, arguments=text, wire_id=call.id or None)

    def _opaque(self) -> Opaque | None:
        if self._details:
            return Opaque(format=NAME, model=self._model, data=msgspec.Raw(b"[" + b",".join(self._details) + b"]"))
        if not self._thinking_field:
            return None
        return Opaque(format=NAME, model=self._model, data=msgspec.Raw(encode(self._thinking_field)))


def _usage(usage: _Usage) -> Usage:
    sent, made = usage.prompt_tokens_details or _Details(), usage.completion_tokens_details or _Details()
    return Usage(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cache_read=sent.cached_tokens or usage.prompt_cache_hit_tokens or 0,
        cache_write=sent.cache_write_tokens or 0,
        thinking=made.reasoning_tokens or 0,
    )
