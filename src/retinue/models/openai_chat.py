"""OpenAI Chat Completions, as OpenAI and the many servers that copy it speak it.

A user turn becomes the tools' messages and then one user message; what is volatile
is spliced into that last message, so that roles never double. Thinking goes back
under the name it came with, because some servers refuse a tool loop without it.
Reasoning models of OpenAI get no sampling settings, which they refuse. What comes
back is read in `retinue.models.openai_chat_reader`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from retinue.models import failures
from retinue.models.encode import (
    EMPTY,
    arguments,
    encode,
    media_note,
    opaque_for,
    open_object,
    outcome_text,
    text_inside,
    wire_id,
)
from retinue.models.openai_chat_reader import NAME, ChatReader
from retinue.ports.model import Answer, Fragment, Head, Request
from retinue.schema.errors import ModelError
from retinue.schema.message import Call, Media, Outcome, Text, Thinking, Turn

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]

_OURS = frozenset(
    {"model", "messages", "tools", "stream", "stream_options", "functions", "plugins", "web_search_options"}
)
_REASONS = re.compile(r"(o\d|gpt-[5-9])(?!.*-chat)")


class OpenAIChat:
    """The format.

    Args:
        max_tokens_field: OpenAI has renamed it; most compatible servers have not.
    """

    def __init__(self, max_tokens_field: MaxTokensField = "max_tokens") -> None:
        self._max_tokens_field = max_tokens_field

    @property
    def name(self) -> str:
        return NAME

    def encode_head(self, head: Head, model: str) -> Fragment:
        fields: dict[str, object] = {"model": model}
        if head.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in head.tools
            ]
            if head.tool_choice != "auto":
                fields["tool_choice"] = head.tool_choice
            if not head.parallel_tool_calls:
                fields["parallel_tool_calls"] = False
        if not _REASONS.match(model.rsplit("/", 1)[-1]):
            fields |= {"temperature": head.temperature, "top_p": head.top_p}
        fields |= {"reasoning_effort": head.reasoning_effort, self._max_tokens_field: head.max_tokens}
        if head.output_schema is not None:
            schema = {"name": "result", "schema": msgspec.Raw(head.output_schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        fields = {key: value for key, value in fields.items() if value is not None}
        system = encode({"role": "system", "content": head.system}) if head.system else b""
        return Fragment(open_object(fields, head.options, _OURS) + b',"messages":[' + system)

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        if turn.role == "assistant":
            return Fragment(encode(_assistant(turn, model)))
        *tools, last = _user(turn)
        data = b",".join(map(encode, (*tools, last)))
        # Before the end of the last user message's content, a string or a list.
        return Fragment(data, mark=len(data) - 2 if last["role"] == "user" else -1)

    def path(self, model: str, *, stream: bool) -> str:
        return "/chat/completions"

    def headers(self, key: str | None) -> Mapping[str, str]:
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body(self, request: Request, model: str) -> bytes:
        messages = [turn.data for turn in request.turns]
        if request.tail:
            messages = _with_tail(request.turns, messages, request.tail)
        head = request.head.data
        comma = b"," if messages and not head.endswith(b"[") else b""
        end = b'],"stream":true,"stream_options":{"include_usage":true}}' if request.stream else b"]}"
        return b"".join((head, comma, b",".join(messages), end))

    def reader(self, model: str) -> ChatReader:
        return ChatReader(model)

    def parse(self, body: bytes, model: str) -> Answer:
        reader = ChatReader(model)
        reader.feed("", body, None)
        return reader.answer()

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        return failures.classify("the provider", status, headers, body)


def _with_tail(turns: Sequence[Fragment], messages: list[bytes], tail: str) -> list[bytes]:
    if not turns or turns[-1].mark < 0:
        return [*messages, encode({"role": "user", "content": tail})]
    data, mark = turns[-1].data, turns[-1].mark
    more = text_inside(f"\n\n{tail}") if data[mark : mark + 1] == b'"' else b"," + encode(_text(tail))
    return [*messages[:-1], data[:mark] + more + data[mark:]]


def _assistant(turn: Turn, model: str) -> Mapping[str, object]:
    text = "".join(p.text for p in turn.parts if isinstance(p, Text))
    calls = [
        {
            "id": wire_id(p.id),
            "type": "function",
            "function": {"name": p.tool, "arguments": arguments(p.arguments).decode()},
        }
        for p in turn.parts
        if isinstance(p, Call)
    ]
    message: dict[str, object] = {"role": "assistant", "content": text or (None if calls else EMPTY)}
    for part in turn.parts:
        if isinstance(part, Thinking) and (kept := opaque_for(part.opaque, NAME, model)) is not None:
            message |= _thinking(part.text, bytes(kept))
    if calls:
        message["tool_calls"] = calls
    return message


def _thinking(text: str, kept: bytes) -> Mapping[str, object]:
    """Kept is the name of the field that the text came in, or a list that goes back instead of the text."""
    if kept.startswith(b"["):
        return {"reasoning_details": msgspec.Raw(kept)}
    return {msgspec.json.decode(kept, type=str): text}


def _user(turn: Turn) -> Iterator[Mapping[str, object]]:
    """At least one message: the outcomes, then what the user and the outcomes' files say.

    A tool's message can hold text only, so its files follow in the user's.
    """
    content: list[Mapping[str, object]] = []
    outcomes = 0
    for part in turn.parts:
        match part:
            case Outcome():
                outcomes += 1
                yield {"role": "tool", "tool_call_id": wire_id(part.call), "content": outcome_text(part)}
                if part.media:
                    content.append(_text(f"From the call of {part.tool}:"))
                    content.extend(map(_media, part.media))
            case Text():
                if part.text:
                    content.append(_text(part.text))
            case Media():
                content.append(_media(part))
            case Thinking() | Call():
                pass
    if content and all("text" in item for item in content):
        yield {"role": "user", "content": "\n\n".join(str(item["text"]) for item in content)}
    elif content:
        yield {"role": "user", "content": content}
    elif not outcomes:
        yield {"role": "user", "content": EMPTY}


def _text(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}


def _media(media: Media) -> Mapping[str, object]:
    if media.data is None:
        return _text(media_note(media))
    url = f"data:{media.mime};base64,{media.data}"
    if media.mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": media.name or "file", "file_data": url}}
