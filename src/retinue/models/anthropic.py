"""Anthropic Messages: turns as content blocks, with cache marks where the next request will read.

The head is marked for the cache once and for all; `body` marks the last user turn
and the one before it, which the request before this one marked. Volatile text comes
after the last mark. Models differ in what they refuse; `_Abilities` has what we must
know of them. Thinking is kept as the block it came in, signature and all, because the
next request of a tool loop must give it back unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import msgspec

from retinue.models import failures, wire
from retinue.ports.model import Answer, Finish, Fragment, Head, OnDelta, Request
from retinue.schema.agent import ReasoningEffort
from retinue.schema.completion import Usage
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Outcome, Part, Text, Thinking, Turn

NAME = "anthropic"

_OURS = frozenset({"model", "messages", "system", "tools", "stream", "mcp_servers"})
_MARK = b',"cache_control":{"type":"ephemeral"}'
_CACHED = {"type": "ephemeral"}
_DEFAULT_OUTPUT = 32_000
_DEFAULT_ANSWER = 8192
_SMALLEST_BUDGET = 1024
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_VERSION = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:[-.](\d{1,2}))?(?![\d])")
_RESULT = b'{"role":"user","content":[{"type":"tool_result"'
_THOUGHT = (
    b'{"role":"assistant","content":[{"type":"thinking"',
    b'{"role":"assistant","content":[{"type":"redacted_thinking"',
)
_FINISHES: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class _Block(msgspec.Struct):
    """A content block: whole, as it is opened, or what is added to it."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str | None = None
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    partial_json: str = ""
    stop_reason: str | None = None
    """Of a delta that is about the whole message."""


class _Message(msgspec.Struct):
    content: list[_Block] = []
    stop_reason: str | None = None
    usage: wire.Counts | None = None


class _Event(_Message):
    """An event of a stream, or a whole message."""

    type: str = ""
    index: int = 0
    delta: _Block | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    error: object = None


_event = msgspec.json.Decoder(_Event)


class AnthropicReader(wire.Reader):
    """Folds the events of one answer."""

    format = NAME

    def __init__(self, model: str, on_delta: OnDelta | None = None) -> None:
        super().__init__(model, on_delta)
        self._blocks: dict[int, _Block] = {}
        self._pieces: dict[int, list[str]] = {}
        self._stop_reason: str | None = None
        self._usage: wire.Counts = {}

    def feed(self, data: bytes) -> None:
        if data == b"[DONE]":
            return
        event = self._decoded(_event, data)
        if event.error:
            raise failures.classify_event(data)
        if event.delta is not None and event.type == "content_block_delta":
            self._add(event.index, event.delta)
        elif event.content_block is not None:
            self._open(event.index, event.content_block)
        else:
            self._end(event)

    def answer(self) -> Answer:
        if self._stop_reason is None:
            raise failures.cut()
        return Answer(
            parts=tuple(part for index, block in self._blocks.items() for part in self._parts(index, block)),
            finish=_FINISHES.get(self._stop_reason, "other"),
            usage=_usage(self._usage),
            raw_finish=self._stop_reason,
        )

    def _open(self, index: int, block: _Block) -> None:
        self._blocks[index] = block
        self._pieces[index] = []
        if block.type == "tool_use":
            self._tell_call(block.name)
        elif block.text:
            self._tell("text", block.text)

    def _add(self, index: int, delta: _Block) -> None:
        pieces = self._pieces.get(index)
        if pieces is None:
            return
        match delta.type:
            case "text_delta":
                pieces.append(delta.text)
                self._tell("text", delta.text)
            case "thinking_delta":
                pieces.append(delta.thinking)
                self._tell("thinking", delta.thinking)
            case "input_json_delta":
                pieces.append(delta.partial_json)
            case "signature_delta":
                self._blocks[index].signature += delta.signature
            case _:
                pass

    def _end(self, event: _Event) -> None:
        """What is about the whole message: its beginning, its end, or all of it."""
        for index, block in enumerate(event.content):
            self._open(index, block)
        stop_reason = event.stop_reason if event.delta is None else event.delta.stop_reason
        self._stop_reason = stop_reason or self._stop_reason
        # Later figures replace earlier ones, absent ones do not.
        for usage in (event.usage, event.message and event.message.usage):
            self._usage |= {name: count for name, count in (usage or {}).items() if count is not None}

    def _parts(self, index: int, block: _Block) -> Iterator[Part]:
        added = "".join(self._pieces[index])
        match block.type:
            case "text" if text := block.text + added:
                yield Text(text=text)
            case "thinking":
                text = block.thinking + added
                whole = {"type": "thinking", "thinking": text, "signature": block.signature}
                yield Thinking(text=text, opaque=self._opaque(wire.encode(whole)))
            case "redacted_thinking":
                whole = {"type": "redacted_thinking", "data": block.data}
                yield Thinking(text="", opaque=self._opaque(wire.encode(whole)))
            case "tool_use":
                text = added if added.strip() else bytes(block.input).decode()
                yield Call(id=CallId(""), tool=block.name, arguments=text, wire_id=block.id)
            case _:
                return


def _usage(usage: wire.Counts) -> Usage:
    read, write = wire.tokens(usage, "cache_read_input_tokens"), wire.tokens(usage, "cache_creation_input_tokens")
    return Usage(
        input=wire.tokens(usage, "input_tokens") + read + write,
        output=wire.tokens(usage, "output_tokens"),
        cache_read=read,
        cache_write=write,
        thinking=wire.tokens(usage, "output_tokens_details", "thinking_tokens"),
    )


class Anthropic(wire.Format):
    _reader = AnthropicReader
    _path = "/v1/messages"

    def encode_head(self, head: Head, model: str) -> Fragment:
        """`mark` is where the thinking setting ends when `body` may have to leave it out, else -1."""
        can = _abilities(model)
        room = self._max_tokens(head)
        thinking = _thinking(head, can, room)
        effort = _effort(head) if can.effort else None
        samples = can.sampling and not thinking
        fields: dict[str, object] = {
            "thinking": thinking,
            "model": model,
            "max_tokens": room,
            **_system_and_tools(head, can),
            "output_config": {"effort": effort} if effort else None,
            # Newer models take one of the two.
            "temperature": min(head.temperature, 1.0) if samples and head.temperature is not None else None,
            "top_p": head.top_p if samples and head.temperature is None else None,
        }
        data = wire.open_object(fields, head.options, _OURS) + b',"messages":['
        removable = data.startswith(b'{"thinking":{"type":"enabled"')
        return Fragment(data, mark=data.index(b"}") + 2 if removable else -1)

    def _max_tokens(self, head: Head) -> int:
        """The API wants one, and counts thinking in it."""
        wanted = head.max_tokens or max(_DEFAULT_OUTPUT, (head.thinking_budget or 0) + _DEFAULT_ANSWER)
        return min(wanted, self._max_output)

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        if turn.role == "assistant":
            return Fragment(wire.encode({"role": "assistant", "content": list(_assistant(turn, model))}))
        blocks = [*map(_result, wire.outcomes_of(turn)), *wire.said(turn, _text, _media)] or [_text(wire.EMPTY)]
        data = wire.encode({"role": "user", "content": blocks})
        return Fragment(data, mark=len(data) - len("}]}"))

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        given = {} if key is None else {"x-api-key": key}
        # Servers in front of other clouds refuse a beta that they do not know.
        beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"} if _abilities(model).binds else {}
        return {"anthropic-version": "2023-06-01", **beta, **given}

    def body(self, request: Request, model: str) -> bytes:
        head, turns = request.head, list(request.turns)
        if head.mark >= 0 and not _thinking_holds(turns):
            head = Fragment(b"{" + head.data[head.mark :])
        for index in [i for i, turn in enumerate(turns) if turn.mark >= 0][-2:]:
            data, mark = turns[index].data, turns[index].mark
            turns[index] = Fragment(data[:mark] + _MARK + data[mark:])
        return super().body(msgspec.structs.replace(request, head=head, turns=turns), model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Abilities:
    """What a model takes. Names we can't read are taken for older models or for other makers'."""

    adaptive: bool
    """Decides by itself how much to think."""
    budgets: bool
    """Takes a budget of tokens to think."""
    thinks: bool
    """Thinks unless told otherwise."""
    binds: bool
    """Refuses thinking whose conversation has changed, unless told to drop it."""
    effort: bool
    sampling: bool
    forcing: bool
    """Takes a tool choice that forces a call."""


@cache
def _abilities(model: str) -> _Abilities:
    match = _VERSION.search(model)
    family, version = (match[1], (int(match[2]), int(match[3] or 0))) if match else ("", (0, 0))
    return _Abilities(
        adaptive=version >= (4, 6),
        budgets=version < (4, 7),
        thinks=version >= (5, 0),
        binds=version >= (5, 1),
        effort=version >= (4, 6) or (family, version) == ("opus", (4, 5)),
        sampling=version < (4, 7),
        forcing=version < (5, 1) or family == "haiku",
    )


def _thinking(head: Head, can: _Abilities, room: int) -> Mapping[str, object] | None:
    budget = head.thinking_budget
    wanted = budget != 0 and (budget is not None or head.reasoning_effort is not None)
    if can.thinks or (wanted and can.adaptive and (budget is None or not can.budgets)):
        shown = {} if can.budgets else {"display": "summarized"}
        bound = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if can.binds else {}
        return {"type": "adaptive", **shown, **bound}
    # Thinking within a budget can't be forced to call.
    if not wanted or head.tool_choice == "required":
        return None
    tokens = max(budget or wire.BUDGETS[head.reasoning_effort or "medium"], _SMALLEST_BUDGET)
    # An answer must fit behind the thinking, and both in what the request may cost.
    tokens = tokens if tokens < room else room // 2
    return {"type": "enabled", "budget_tokens": tokens} if tokens >= _SMALLEST_BUDGET else None


def _effort(head: Head) -> ReasoningEffort | None:
    budget = head.thinking_budget
    if head.reasoning_effort is not None or budget is None:
        return head.reasoning_effort
    if budget <= wire.BUDGETS["low"]:
        return "low"
    return "medium" if budget <= wire.BUDGETS["medium"] else "high"


def _system_and_tools(head: Head, can: _Abilities) -> Mapping[str, object]:
    fields: dict[str, object] = {}
    system = head.system
    if head.output_schema is not None:
        schema = head.output_schema.decode()
        system += f"\n\nAnswer with one JSON value that fits this JSON Schema, and nothing else:\n{schema}"
    tools: list[dict[str, object]] = [
        {"name": t.name, "description": t.description, "input_schema": t.parameters} for t in head.tools
    ]
    if system.strip():
        fields["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
    elif tools:
        tools[-1]["cache_control"] = _CACHED
    if not tools:
        return fields
    fields["tools"] = tools
    choice = "auto" if head.tool_choice == "required" and not can.forcing else head.tool_choice
    single = not head.parallel_tool_calls and choice != "none"
    if choice != "auto" or single:
        fields["tool_choice"] = {"type": _CHOICES[choice], **({"disable_parallel_tool_use": True} if single else {})}
    return fields


def _thinking_holds(turns: Sequence[Fragment]) -> bool:
    """Whether the tool loop that is going on began with thinking we can send.

    After a change of model it does not, and then the API refuses to think with a
    budget until the turn ends.
    """
    at = len(turns) - 1
    while at >= 2 and turns[at].data.startswith(_RESULT):
        at -= 2
    return at + 1 >= len(turns) or turns[at + 1].data.startswith(_THOUGHT)


def _text(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}


def _result(outcome: Outcome) -> Mapping[str, object]:
    text = outcome.text if outcome.status == "error" and outcome.text else wire.outcome_text(outcome)
    block: dict[str, object] = {"type": "tool_result", "tool_use_id": wire.call_id(outcome.call), "content": text}
    if outcome.media:
        block["content"] = [_text(text), *map(_media, outcome.media)]
    if outcome.status != "ok":
        block["is_error"] = True
    return block


def _assistant(turn: Turn, model: str) -> Iterator[object]:
    """Blocks in the order they came; thinking may not be the last."""
    ended = False
    for part in turn.parts:
        match part:
            case Thinking() if (block := wire.opaque_for(part.opaque, NAME, model)) is not None:
                yield block
                ended = False
                continue
            case Text() if part.text.strip():
                yield _text(part.text)
            case Media():
                yield _text(wire.media_note(part))
            case Call():
                given = msgspec.Raw(wire.arguments(part.arguments))
                yield {
                    "type": "tool_use",
                    "id": wire.call_id(part.id),
                    "name": wire.tool_name(part.tool),
                    "input": given,
                }
            case _:
                continue
        ended = True
    if not ended:
        yield _text(wire.EMPTY)


def _media(media: Media) -> Mapping[str, object]:
    source = {"type": "base64", "media_type": media.mime, "data": media.data}
    if media.data is not None and media.mime in wire.IMAGES:
        return {"type": "image", "source": source}
    if media.data is not None and media.mime == "application/pdf":
        return {"type": "document", "source": source, "title": media.name or "file"}
    return _text(wire.media_text(media))
