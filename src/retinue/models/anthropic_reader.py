"""Reads answers of Anthropic Messages, streamed or whole.

Thinking is kept as the block it came in, signature and all, because the next
request of a tool loop must give it back unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from retinue.models import failures
from retinue.models.encode import decode, encode
from retinue.ports.model import Answer, Delta, Finish, OnDelta
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Opaque, Part, Text, Thinking

NAME = "anthropic"

_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _OutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Block(msgspec.Struct):
    """A content block: whole, or as it is opened and then added to."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str | None = None
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Message(msgspec.Struct):
    content: list[_Block] = []
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None


_event = msgspec.json.Decoder(_Event)
_message = msgspec.json.Decoder(_Message)


def parse_message(body: bytes, model: str) -> Answer:
    try:
        message = decode(_message, body)
    except msgspec.DecodeError as error:
        raise ModelError(f"anthropic sent what is not a message: {error}", transient=True) from error
    if message.stop_reason is None:
        raise failures.classify_event("anthropic", body)
    return _answer(message.content, message.stop_reason, _Totals(message.usage), model)


class AnthropicReader:
    """Folds the events of one answer."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._pieces: dict[int, list[str]] = {}
        self._calls = 0
        self._stop_reason: str | None = None
        self._totals = _Totals(None)

    def feed(self, event: str, data: bytes, on_delta: OnDelta | None) -> None:
        if event == "ping" or data == b"[DONE]":
            return
        try:
            found = decode(_event, data)
        except msgspec.DecodeError as error:
            raise ModelError(f"anthropic sent what is not an event: {error}", transient=True) from error
        match found.type:
            case "content_block_delta":
                if found.delta is not None:
                    self._add(found.index, found.delta, on_delta)
            case "content_block_start":
                if found.content_block is not None:
                    self._open(found.index, found.content_block, on_delta)
            case "message_start":
                if found.message is not None:
                    self._totals.take(found.message.usage)
            case "message_delta":
                self._totals.take(found.usage)
                if found.delta is not None and found.delta.stop_reason:
                    self._stop_reason = found.delta.stop_reason
            case "error":
                raise failures.classify_event("anthropic", data)
            case _:
                pass

    def answer(self) -> Answer:
        if self._stop_reason is None:
            raise failures.cut("anthropic")
        return _answer(self._whole(), self._stop_reason, self._totals, self._model)

    def _open(self, index: int, block: _Block, on_delta: OnDelta | None) -> None:
        # Raw points into the read it came with; the copy outlives it.
        block.input = msgspec.Raw(bytes(block.input))
        self._blocks[index] = block
        self._pieces[index] = []
        if block.type == "tool_use":
            if on_delta is not None:
                on_delta(Delta(kind="call", text=block.name, index=self._calls))
            self._calls += 1
        elif block.text and on_delta is not None:
            on_delta(Delta(kind="text", text=block.text))

    def _add(self, index: int, delta: _Delta, on_delta: OnDelta | None) -> None:
        pieces = self._pieces.get(index)
        if pieces is None:
            return
        match delta.type:
            case "text_delta":
                pieces.append(delta.text)
                if on_delta is not None:
                    on_delta(Delta(kind="text", text=delta.text))
            case "thinking_delta":
                pieces.append(delta.thinking)
                if on_delta is not None:
                    on_delta(Delta(kind="thinking", text=delta.thinking))
            case "input_json_delta":
                pieces.append(delta.partial_json)
            case "signature_delta":
                self._blocks[index].signature += delta.signature
            case _:
                pass

    def _whole(self) -> Iterator[_Block]:
        for index, block in self._blocks.items():
            said = "".join(self._pieces[index])
            match block.type:
                case "text":
                    block.text += said
                case "thinking":
                    block.thinking += said
                case "tool_use" if said.strip():
                    block.input = msgspec.Raw(said.encode())
                case _:
                    pass
            yield block


class _Totals:
    """Usage as it grows: later figures replace earlier ones, absent ones do not."""

    def __init__(self, usage: _Usage | None) -> None:
        self._counts: dict[str, int] = {}
        self.take(usage)

    def take(self, usage: _Usage | None) -> None:
        if usage is None:
            return
        details = usage.output_tokens_details
        found = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "read": usage.cache_read_input_tokens,
            "write": usage.cache_creation_input_tokens,
            "thinking": None if details is None else details.thinking_tokens,
        }
        self._counts |= {name: count for name, count in found.items() if count is not None}

    def usage(self) -> Usage:
        count = self._counts.get
        read, write = count("read", 0), count("write", 0)
        return Usage(
            input=count("input", 0) + read + write,
            output=count("output", 0),
            cache_read=read,
            cache_write=write,
            thinking=count("thinking", 0),
        )


def _answer(blocks: Iterable[_Block], stop_reason: str, totals: _Totals, model: str) -> Answer:
    return Answer(
        parts=tuple(part for block in blocks for part in _parts(block, model)),
        finish=_FINISH.get(stop_reason, "other"),
        usage=totals.usage(),
        raw_finish=stop_reason,
    )


def _parts(block: _Block, model: str) -> Iterator[Part]:
    match block.type:
        case "text":
            if block.text:
                yield Text(text=block.text)
        case "thinking":
            whole = {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
            yield Thinking(text=block.thinking, opaque=_opaque(whole, model))
        case "redacted_thinking":
            yield Thinking(text="", opaque=_opaque({"type": "redacted_thinking", "data": block.data}, model))
        case "tool_use":
            arguments = bytes(block.input).decode()
            yield Call(id=CallId(""), tool=block.name, arguments=arguments, wire_id=block.id)
        case _:
            return


def _opaque(block: Mapping[str, object], model: str) -> Opaque:
    return Opaque(format=NAME, model=model, data=msgspec.Raw(encode(block)))
