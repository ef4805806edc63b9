"""Anthropic Messages: turns as content blocks, with cache marks where the next request will read.

The head is marked for the cache once and for all; `body` marks the last user turn
and the one before it, which the request before this one marked. Volatile text comes
after the last mark, inside the last user message, because two user messages may not
follow each other. Models differ in what they refuse; `_Abilities` has what we must
know of them. What comes back is read in `retinue.models.anthropic_reader`.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from retinue.models import failures
from retinue.models.anthropic_reader import NAME, AnthropicReader, parse_message
from retinue.models.encode import EMPTY, arguments, encode, media_note, opaque_for, open_object, outcome_text, wire_id
from retinue.ports.model import Answer, Fragment, Head, Request
from retinue.schema.agent import ReasoningEffort
from retinue.schema.errors import ModelError
from retinue.schema.message import Call, Media, Outcome, Text, Thinking, Turn

_OURS = frozenset({"model", "messages", "system", "tools", "stream", "mcp_servers"})
_MARK = b',"cache_control":{"type":"ephemeral"}'
_CACHED = {"type": "ephemeral"}
_DEFAULT_OUTPUT = 32_000
_DEFAULT_ANSWER = 8192
_SMALLEST_BUDGET = 1024
_BUDGETS: Mapping[ReasoningEffort, int] = {"low": 2048, "medium": 8192, "high": 24576}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_VERSION = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:[-.](\d{1,2}))?(?![\d])")
_USER = b'{"role":"user"'
_RESULT = b'{"role":"user","content":[{"type":"tool_result"'
_THOUGHT = (
    b'{"role":"assistant","content":[{"type":"thinking"',
    b'{"role":"assistant","content":[{"type":"redacted_thinking"',
)


class Anthropic:
    """The format.

    Args:
        max_output: The longest answer of the model it is used for.
    """

    def __init__(self, max_output: int = 8192) -> None:
        self._max_output = max_output

    @property
    def name(self) -> str:
        return NAME

    def encode_head(self, head: Head, model: str) -> Fragment:
        """`mark` is where the thinking setting ends when `body` may have to leave it out, else -1."""
        can = _abilities(model)
        room = self._max_tokens(head)
        thinking = _thinking(head, can, room)
        fields: dict[str, object] = {"thinking": thinking} if thinking else {}
        fields |= {"model": model, "max_tokens": room}
        fields |= _system_and_tools(head, can)
        if can.effort and (effort := _effort(head)):
            fields["output_config"] = {"effort": effort}
        if can.sampling and not thinking:
            # Newer models take one of the two.
            if head.temperature is not None:
                fields["temperature"] = min(head.temperature, 1.0)
            elif head.top_p is not None:
                fields["top_p"] = head.top_p
        data = open_object(fields, head.options, _OURS) + b',"messages":['
        removable = data.startswith(b'{"thinking":{"type":"enabled"')
        return Fragment(data, mark=data.index(b"}") + 2 if removable else -1)

    def _max_tokens(self, head: Head) -> int:
        """The API wants one, and counts thinking in it."""
        wanted = head.max_tokens or max(_DEFAULT_OUTPUT, (head.thinking_budget or 0) + _DEFAULT_ANSWER)
        return min(wanted, self._max_output)

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        blocks = list(_user(turn) if turn.role == "user" else _assistant(turn, model))
        data = encode({"role": turn.role, "content": blocks})
        return Fragment(data, mark=len(data) - len("}]}") if turn.role == "user" else -1)

    def path(self, model: str, *, stream: bool) -> str:
        return "/v1/messages"

    def headers(self, key: str | None) -> Mapping[str, str]:
        given = {} if key is None else {"x-api-key": key}
        return {"anthropic-version": "2023-06-01", "anthropic-beta": "thinking-binding-controls-2026-08-01", **given}

    def body(self, request: Request, model: str) -> bytes:
        head = request.head
        start = head.data
        if head.mark >= 0 and not _thinking_holds(request.turns):
            start = b"{" + start[head.mark :]
        turns = [turn.data for turn in request.turns]
        for index in [i for i, turn in enumerate(request.turns) if turn.mark >= 0][-2:]:
            data, mark = turns[index], request.turns[index].mark
            turns[index] = data[:mark] + _MARK + data[mark:]
        if request.tail:
            turns = _with_tail(turns, request.tail)
        end = b'],"stream":true}' if request.stream else b"]}"
        return b"".join((start, b",".join(turns), end))

    def reader(self, model: str) -> AnthropicReader:
        return AnthropicReader(model)

    def parse(self, body: bytes, model: str) -> Answer:
        return parse_message(body, model)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        return failures.classify("anthropic", status, headers, body)


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
    tokens = max(budget or _BUDGETS[head.reasoning_effort or "medium"], _SMALLEST_BUDGET)
    # An answer must fit behind the thinking, and both in what the request may cost.
    tokens = tokens if tokens < room else room // 2
    return {"type": "enabled", "budget_tokens": tokens} if tokens >= _SMALLEST_BUDGET else None


def _effort(head: Head) -> ReasoningEffort | None:
    budget = head.thinking_budget
    if head.reasoning_effort is not None or budget is None:
        return head.reasoning_effort
    if budget <= _BUDGETS["low"]:
        return "low"
    return "medium" if budget <= _BUDGETS["medium"] else "high"


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


def _with_tail(turns: list[bytes], tail: str) -> list[bytes]:
    block = encode({"type": "text", "text": tail})
    if turns and turns[-1].startswith(_USER):
        return [*turns[:-1], turns[-1][: -len("]}")] + b"," + block + b"]}"]
    return [*turns, b'{"role":"user","content":[' + block + b"]}"]


def _user(turn: Turn) -> Iterator[Mapping[str, object]]:
    empty = True
    for part in turn.parts:
        match part:
            case Outcome():
                yield _result(part)
            case Text():
                if not part.text.strip():
                    continue
                yield {"type": "text", "text": part.text}
            case Media():
                yield _media(part)
            case Thinking() | Call():
                continue
        empty = False
    if empty:
        yield {"type": "text", "text": EMPTY}


def _result(outcome: Outcome) -> Mapping[str, object]:
    text = outcome.text if outcome.status == "error" and outcome.text else outcome_text(outcome)
    block: dict[str, object] = {"type": "tool_result", "tool_use_id": wire_id(outcome.call), "content": text}
    if outcome.media:
        block["content"] = [{"type": "text", "text": text}, *map(_media, outcome.media)]
    if outcome.status != "ok":
        block["is_error"] = True
    return block


def _assistant(turn: Turn, model: str) -> Iterator[object]:
    """Blocks in the order they came; thinking may not be the last."""
    said = False
    for part in turn.parts:
        match part:
            case Thinking():
                if (block := opaque_for(part.opaque, NAME, model)) is not None:
                    said = False
                    yield block
            case Text():
                if part.text.strip():
                    said = True
                    yield {"type": "text", "text": part.text}
            case Call():
                said = True
                block = msgspec.Raw(arguments(part.arguments))
                yield {"type": "tool_use", "id": wire_id(part.id), "name": part.tool, "input": block}
            case Media() | Outcome():
                pass
    if not said:
        yield {"type": "text", "text": EMPTY}


def _media(media: Media) -> Mapping[str, object]:
    if media.data is not None and media.mime in _IMAGES:
        return {"type": "image", "source": {"type": "base64", "media_type": media.mime, "data": media.data}}
    if media.data is not None and media.mime == "application/pdf":
        source = {"type": "base64", "media_type": media.mime, "data": media.data}
        return {"type": "document", "source": source, "title": media.name or "file"}
    if media.data is not None and media.mime.startswith("text/"):
        text = b64decode(media.data).decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text or EMPTY}
        return {"type": "document", "source": source, "title": media.name or "file"}
    return {"type": "text", "text": media_note(media)}
