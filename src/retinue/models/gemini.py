"""Google Gemini: turns as contents, thoughts bound to their parts by signatures.

A signature goes back on the part it came with, to the model that made it. Gemini
refuses a turn whose first call has none, so calls of another model carry the
documented placeholder. Thoughts without a signature are not sent back: Gemini does
not read them. Ids of calls are ours, the same on the call and on its response.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from retinue.models import failures
from retinue.models.encode import EMPTY, arguments, encode, media_note, opaque_for, open_object, outcome_text, wire_id
from retinue.ports.model import Answer, Delta, Finish, Fragment, Head, OnDelta, Request
from retinue.schema.agent import ReasoningEffort
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn

NAME = "gemini"

_OURS = frozenset({"contents", "systemInstruction", "system_instruction", "tools", "cachedContent", "cached_content"})
_PLACEHOLDER = "skip_thought_signature_validator"
_GENERATION_3 = re.compile(r"(.*/)?gemini-([3-9]|\d\d)")
_BUDGETS: Mapping[ReasoningEffort, int] = {"low": 2048, "medium": 8192, "high": 24576}
_CHOICES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_FINISHES: Mapping[str, Finish] = {
    "STOP": "stop",
    "FUNCTION_CALL": "calls",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "MODEL_ARMOR": "filtered",
}
_MALFORMED = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
"""The model stumbled over its own words; asking again usually helps."""

_Kind = Literal["text", "thinking"]


class Gemini:
    """The format; it holds nothing."""

    @property
    def name(self) -> str:
        return NAME

    def encode_head(self, head: Head, model: str) -> Fragment:
        fields: dict[str, object] = {}
        if head.system:
            fields["systemInstruction"] = {"parts": [{"text": head.system}]}
        if head.tools:
            tools = [
                {"name": t.name, "description": t.description, "parametersJsonSchema": t.parameters} for t in head.tools
            ]
            fields["tools"] = [{"functionDeclarations": tools}]
            fields["toolConfig"] = {"functionCallingConfig": {"mode": _CHOICES[head.tool_choice]}}
        if config := _generation_config(head, model):
            fields["generationConfig"] = config
        data = open_object(fields, head.options, _OURS)
        return Fragment(data + (b'"contents":[' if data == b"{" else b',"contents":['))

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        parts = list(_user_parts(turn, model) if turn.role == "user" else _model_parts(turn, model))
        role = "user" if turn.role == "user" else "model"
        return Fragment(encode({"role": role, "parts": parts or [{"text": EMPTY}]}))

    def path(self, model: str, *, stream: bool) -> str:
        name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return f"/{name}:streamGenerateContent?alt=sse" if stream else f"/{name}:generateContent"

    def headers(self, key: str | None) -> Mapping[str, str]:
        return {} if key is None else {"x-goog-api-key": key}

    def body(self, request: Request, model: str) -> bytes:
        contents = [turn.data for turn in request.turns]
        if request.tail:
            tail = encode({"text": request.tail})
            if contents and contents[-1].startswith(b'{"role":"user"'):
                contents[-1] = b"%b,%b]}" % (contents[-1][:-2], tail)
            else:
                contents.append(b'{"role":"user","parts":[%b]}' % tail)
        return b"".join((request.head.data, b",".join(contents), b"]}"))

    def reader(self, model: str) -> "GeminiReader":
        return GeminiReader(model)

    def parse(self, body: bytes, model: str) -> Answer:
        reader = GeminiReader(model)
        reader.feed("", body, None)
        return reader.answer()

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        return failures.classify("the provider", status, headers, body)


class _FunctionCall(msgspec.Struct, frozen=True):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class _Blob(msgspec.Struct, frozen=True, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None
    inline_data: _Blob | None = None


class _Content(msgspec.Struct, frozen=True):
    parts: Sequence[_Part] | None = None


class _Candidate(msgspec.Struct, frozen=True, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(msgspec.Struct, frozen=True, rename="camel"):
    block_reason: str | None = None


class _Usage(msgspec.Struct, frozen=True, rename="camel"):
    prompt_token_count: int = 0
    cached_content_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0


class _Error(msgspec.Struct, frozen=True):
    code: int = 500


class _Chunk(msgspec.Struct, frozen=True, rename="camel"):
    candidates: Sequence[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    error: _Error | None = None


_chunk = msgspec.json.Decoder(_Chunk)


class GeminiReader:
    """Folds the chunks of one answer."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._parts: list[Part] = []
        self._kind: _Kind = "text"
        self._pieces: list[str] = []
        self._finish = ""
        self._why = ""
        self._usage = _Usage()

    def feed(self, event: str, data: bytes, on_delta: OnDelta | None) -> None:
        try:
            chunk = _chunk.decode(data)
        except msgspec.DecodeError as error:
            raise ModelError(f"the provider sent a chunk that can't be read: {error}", transient=True) from error
        if chunk.error is not None:
            raise failures.classify("the provider", chunk.error.code, {}, data)
        self._usage = chunk.usage_metadata or self._usage
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._finish = chunk.prompt_feedback.block_reason
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content.parts or ()) if candidate.content is not None else ():
                self._take(part, on_delta)
            self._finish = candidate.finish_reason or self._finish
            self._why = candidate.finish_message or self._why

    def answer(self) -> Answer:
        if not self._finish:
            raise failures.cut("the provider")
        if self._finish in _MALFORMED:
            raise ModelError(f"the model could not finish a call ({self._finish}): {self._why}", transient=True)
        self._close(None)
        parts = tuple(self._parts)
        finish = _FINISHES.get(self._finish, "other")
        if finish == "stop" and any(isinstance(p, Call) for p in parts):
            finish = "calls"
        return Answer(parts=parts, finish=finish, usage=_usage(self._usage), raw_finish=self._finish)

    def _take(self, part: _Part, on_delta: OnDelta | None) -> None:
        signature = part.thought_signature
        opaque = _opaque(signature, self._model) if signature else None
        if part.function_call is not None:
            self._close(None)
            delta = self._call(part.function_call, opaque)
        elif part.inline_data is not None:
            self._close(None)
            self._parts.append(Media(mime=part.inline_data.mime_type, data=part.inline_data.data))
            return
        else:
            kind: _Kind = "thinking" if part.thought else "text"
            self._say(kind, part.text or "", opaque)
            delta = Delta(kind=kind, text=part.text or "")
        if on_delta is not None and delta.text:
            on_delta(delta)

    def _call(self, call: _FunctionCall, opaque: Opaque | None) -> Delta:
        index = sum(isinstance(p, Call) for p in self._parts)
        arguments = bytes(call.args).decode()
        self._parts.append(Call(id=CallId(""), tool=call.name, arguments=arguments, wire_id=call.id, opaque=opaque))
        return Delta(kind="call", text=call.name, index=index)

    def _say(self, kind: _Kind, text: str, opaque: Opaque | None) -> None:
        """Text goes on with the part before, but a signed piece stands alone.

        A signature without text, as streams end with, belongs to what was said before it.
        """
        if opaque is not None and not text:
            self._close(opaque)
            return
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


def _usage(usage: _Usage) -> Usage:
    return Usage(
        input=usage.prompt_token_count + usage.tool_use_prompt_token_count,
        output=usage.candidates_token_count + usage.thoughts_token_count,
        cache_read=usage.cached_content_token_count,
        thinking=usage.thoughts_token_count,
    )


def _opaque(signature: str, model: str) -> Opaque:
    return Opaque(format=NAME, model=model, data=msgspec.Raw(encode({"thoughtSignature": signature})))


def _generation_config(head: Head, model: str) -> Mapping[str, object]:
    settings = {"temperature": head.temperature, "topP": head.top_p, "maxOutputTokens": head.max_tokens}
    config: dict[str, object] = {key: value for key, value in settings.items() if value is not None}
    if thinking := _thinking_config(head, model):
        config["thinkingConfig"] = thinking
    # Before generation 3, a schema and tools together are refused; completion is checked by us anyway.
    if head.output_schema is not None and (_GENERATION_3.match(model) or not head.tools):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = msgspec.Raw(head.output_schema)
    return config


def _thinking_config(head: Head, model: str) -> Mapping[str, object] | None:
    if head.thinking_budget is not None:
        return {"thinkingBudget": head.thinking_budget, "includeThoughts": head.thinking_budget != 0}
    if head.reasoning_effort is None:
        return None
    if _GENERATION_3.match(model):
        return {"thinkingLevel": head.reasoning_effort, "includeThoughts": True}
    return {"thinkingBudget": _BUDGETS[head.reasoning_effort], "includeThoughts": True}


def _user_parts(turn: Turn, model: str) -> Iterator[Mapping[str, object]]:
    """Outcomes first; media that an older model can't take inside them come right after them all."""
    outcomes = [part for part in turn.parts if isinstance(part, Outcome)]
    inside = _GENERATION_3.match(model) is not None
    for outcome in outcomes:
        yield {"functionResponse": _response(outcome, media=inside)}
    if not inside:
        yield from (_media(media) for outcome in outcomes for media in outcome.media)
    for part in turn.parts:
        if isinstance(part, Text) and part.text:
            yield {"text": part.text}
        elif isinstance(part, Media):
            yield _media(part)


def _response(outcome: Outcome, *, media: bool) -> Mapping[str, object]:
    key = "output" if outcome.status == "ok" else "error"
    inner = {"parts": [_media(m) for m in outcome.media]} if media and outcome.media else {}
    return {"id": wire_id(outcome.call), "name": outcome.tool, "response": {key: outcome_text(outcome)}, **inner}


def _model_parts(turn: Turn, model: str) -> Iterator[Mapping[str, object]]:
    unsigned = _PLACEHOLDER
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
                args = msgspec.Raw(arguments(part.arguments))
                call = {"id": wire_id(part.id), "name": part.tool, "args": args}
                first = {"thoughtSignature": unsigned} if unsigned else {}
                yield {"functionCall": call, **(signature or first)}
                unsigned = ""
            case _:
                pass


def _signature(part: Part, model: str) -> Mapping[str, object]:
    kept = opaque_for(part.opaque, NAME, model) if isinstance(part, Text | Thinking | Call) else None
    return {} if kept is None else msgspec.json.decode(kept, type=dict[str, object])


def _media(media: Media) -> Mapping[str, object]:
    if media.data is None:
        return {"text": media_note(media)}
    return {"inlineData": {"mimeType": media.mime, "data": media.data}}
