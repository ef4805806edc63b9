"""Google Gemini: turns as contents, thoughts bound to their parts by signatures.

A signature goes back on the part it came with, to the model that made it. Gemini
refuses a turn whose first call has none, so calls of another model carry the
documented placeholder. Thoughts without a signature are not sent back: Gemini does
not read them. Ids of calls are ours, the same on the call and on its response.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import msgspec

from retinue.models import failures, wire
from retinue.ports.model import Answer, Finish, Fragment, Head, OnDelta
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn

NAME = "gemini"

_OURS = frozenset({"contents", "systemInstruction", "system_instruction", "tools", "cachedContent", "cached_content"})
_PLACEHOLDER = "skip_thought_signature_validator"
_CHOICES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_CARRIED = re.compile(r"audio/|video/|application/pdf$")
_FILTERED = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
_FINISHES: Mapping[str, Finish] = {
    "STOP": "stop",
    "FUNCTION_CALL": "calls",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_FILTERED, "filtered"),
}
_MALFORMED = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
"""The model stumbled over its own words; asking again usually helps."""
_NOTHING = msgspec.Raw(b"null")


class _FunctionCall(msgspec.Struct, frozen=True):
    name: str = ""
    args: msgspec.Raw = _NOTHING
    id: str | None = None


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None
    inline_data: Mapping[str, str] | None = None


class _Content(msgspec.Struct, frozen=True):
    parts: Sequence[_Part] | None = None


class _Candidate(msgspec.Struct, frozen=True, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Chunk(msgspec.Struct, frozen=True, rename="camel"):
    candidates: Sequence[_Candidate] | None = None
    prompt_feedback: Mapping[str, object] | None = None
    usage_metadata: msgspec.Raw = _NOTHING
    error: object = None


_chunk = msgspec.json.Decoder(_Chunk)
_counts = msgspec.json.Decoder(wire.Counts | None)


class GeminiReader(wire.Reader):
    """Folds the chunks of one answer."""

    format = NAME

    def __init__(self, model: str, on_delta: OnDelta | None = None) -> None:
        super().__init__(model, on_delta)
        self._parts: list[Part] = []
        self._kind: wire.Told = "text"
        self._pieces: list[str] = []
        self._finish = ""
        self._blocked = False
        self._why = ""
        self._usage = _NOTHING

    def feed(self, data: bytes) -> None:
        chunk = self._decoded(_chunk, data)
        if chunk.error:
            raise failures.classify_event(data)
        if chunk.usage_metadata != _NOTHING:
            self._usage = chunk.usage_metadata
        if reason := (chunk.prompt_feedback or {}).get("blockReason"):
            self._finish, self._blocked = str(reason), True
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content.parts or ()) if candidate.content is not None else ():
                self._take(part)
            self._finish = candidate.finish_reason or self._finish
            self._why = candidate.finish_message or self._why

    def answer(self) -> Answer:
        if not self._finish:
            raise failures.cut()
        if self._finish in _MALFORMED:
            raise ModelError(f"the model could not finish a call ({self._finish}): {self._why}", transient=True)
        self._close(None)
        parts, usage = tuple(self._parts), self._decoded(_counts, bytes(self._usage))
        finish = "filtered" if self._blocked else wire.finish_of(_FINISHES.get(self._finish, "other"), parts)
        return Answer(parts=parts, finish=finish, usage=_usage(usage or {}), raw_finish=self._finish)

    def _take(self, part: _Part) -> None:
        signature = part.thought_signature
        opaque = self._opaque(wire.encode({"thoughtSignature": signature})) if signature else None
        if (call := part.function_call) is not None:
            self._close(None)
            given = "{}" if call.args == _NOTHING else bytes(call.args).decode()
            self._parts.append(Call(id=CallId(""), tool=call.name, arguments=given, wire_id=call.id, opaque=opaque))
            self._tell_call(call.name)
        elif part.inline_data is not None:
            self._close(None)
            self._parts.append(Media(mime=part.inline_data.get("mimeType", ""), data=part.inline_data.get("data")))
        else:
            self._say("thinking" if part.thought else "text", part.text or "", opaque)

    def _say(self, kind: wire.Told, text: str, opaque: Opaque | None) -> None:
        """Text goes on with the part before, but a signed piece stands alone.

        A signature without text, as streams end with, belongs to what was wire.said before it.
        """
        if not text:
            if opaque is not None:
                self._close(opaque)
            return
        self._tell(kind, text)
        if kind != self._kind or opaque is not None:
            self._close(None)
        self._kind = kind
        self._pieces.append(text)
        if opaque is not None:
            self._close(opaque)

    def _close(self, opaque: Opaque | None) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if text and self._kind == "text":
            self._parts.append(Text(text=text, opaque=opaque))
        elif text or opaque is not None:
            self._parts.append(Thinking(text=text, opaque=opaque))


def _usage(usage: wire.Counts) -> Usage:
    thoughts = wire.tokens(usage, "thoughtsTokenCount")
    return Usage(
        input=wire.tokens(usage, "promptTokenCount") + wire.tokens(usage, "toolUsePromptTokenCount"),
        output=wire.tokens(usage, "candidatesTokenCount") + thoughts,
        cache_read=wire.tokens(usage, "cachedContentTokenCount"),
        thinking=thoughts,
    )


class Gemini(wire.Format):
    _reader = GeminiReader
    _content = b"parts"
    _stream_end = b"]}"

    def encode_head(self, head: Head, model: str) -> Fragment:
        tools = [
            {"name": t.name, "description": t.description, "parametersJsonSchema": t.parameters} for t in head.tools
        ]
        fields: dict[str, object] = {
            "systemInstruction": {"parts": [{"text": head.system}]} if head.system else None,
            "tools": [{"functionDeclarations": tools}] if tools else None,
            "toolConfig": {"functionCallingConfig": {"mode": _CHOICES[head.tool_choice]}} if tools else None,
            "generationConfig": _generation_config(head, model) or None,
        }
        data = wire.open_object(fields, head.options, _OURS)
        return Fragment(data + (b'"contents":[' if data == b"{" else b',"contents":['))

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        parts = _user_parts(turn, model) if turn.role == "user" else list(_model_parts(turn, model))
        role = "user" if turn.role == "user" else "model"
        return Fragment(wire.encode({"role": role, "parts": parts or [_text(wire.EMPTY)]}))

    def path(self, model: str, *, stream: bool) -> str:
        name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return f"/{name}:streamGenerateContent?alt=sse" if stream else f"/{name}:generateContent"

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        return {} if key is None else {"x-goog-api-key": key}

    def _block(self, text: str) -> Mapping[str, object]:
        return _text(text)


@cache
def _is_new(model: str) -> bool:
    """Of the third generation or later."""
    return re.match(r"(.*/)?gemini-([3-9]|\d\d)", model) is not None


def _generation_config(head: Head, model: str) -> Mapping[str, object]:
    config: dict[str, object] = {
        "temperature": head.temperature,
        "topP": head.top_p,
        "maxOutputTokens": head.max_tokens,
        "thinkingConfig": _thinking_config(head, model),
    }
    # Before generation 3, a schema and tools together are refused; completion is checked by us anyway.
    if head.output_schema is not None and (_is_new(model) or not head.tools):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = msgspec.Raw(head.output_schema)
    return {key: value for key, value in config.items() if value is not None}


def _thinking_config(head: Head, model: str) -> Mapping[str, object] | None:
    if head.thinking_budget is not None:
        return {"thinkingBudget": head.thinking_budget, "includeThoughts": head.thinking_budget != 0}
    if head.reasoning_effort is None:
        return None
    if _is_new(model):
        return {"thinkingLevel": head.reasoning_effort, "includeThoughts": True}
    return {"thinkingBudget": wire.BUDGETS[head.reasoning_effort], "includeThoughts": True}


def _user_parts(turn: Turn, model: str) -> Sequence[Mapping[str, object]]:
    """Outcomes first; media that an older model can't take inside them come right after them all."""
    outcomes, inside = wire.outcomes_of(turn), _is_new(model)
    beside = [] if inside else [_media(media) for outcome in outcomes for media in outcome.media]
    return [
        *({"functionResponse": _response(outcome, media=inside)} for outcome in outcomes),
        *beside,
        *wire.said(turn, _text, _media),
    ]


def _response(outcome: Outcome, *, media: bool) -> Mapping[str, object]:
    text, inner = wire.outcome_text(outcome), dict[str, object]()
    if media:
        files = [_media(m) for m in outcome.media]
        text = "\n".join([text, *(str(f["text"]) for f in files if "text" in f)])
        carried = [f for f in files if "text" not in f]
        inner = {"parts": carried} if carried else {}
    response = {"output" if outcome.status == "ok" else "error": text}
    return {"id": wire.call_id(outcome.call), "name": wire.tool_name(outcome.tool), "response": response, **inner}


def _model_parts(turn: Turn, model: str) -> Iterator[Mapping[str, object]]:
    unsigned = {"thoughtSignature": _PLACEHOLDER} if _is_new(model) else {}
    for part in turn.parts:
        signature = _signature(part, model)
        match part:
            case Text(text=text) if text:
                yield {"text": text, **signature}
            case Thinking(text=text) if signature:
                yield {"text": text, "thought": True, **signature}
            case Media():
                yield _media(part)
            case Call():
                given = msgspec.Raw(wire.arguments(part.arguments))
                call = {"id": wire.call_id(part.id), "name": wire.tool_name(part.tool), "args": given}
                yield {"functionCall": call, **(signature or unsigned)}
                unsigned = {}
            case _:
                pass


def _signature(part: Part, model: str) -> Mapping[str, object]:
    kept = wire.opaque_for(part.opaque, NAME, model) if isinstance(part, Text | Thinking | Call) else None
    return {} if kept is None else msgspec.json.decode(kept, type=dict[str, object])


def _text(text: str) -> Mapping[str, object]:
    return {"text": text}


def _media(media: Media) -> Mapping[str, object]:
    if media.data is not None and (media.mime in _IMAGES or _CARRIED.match(media.mime)):
        return {"inlineData": {"mimeType": media.mime, "data": media.data}}
    return _text(wire.media_text(media))
