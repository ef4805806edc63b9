"""Neutral turns as pydantic-ai's messages, and its answers and errors as ours.

Imports the library, so only `retinue.models.bridge` may import this, and late.
What a provider wants back unchanged (signatures, item ids) is kept as the library's
own serialised part and goes back only to the model it came from.
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
from pydantic_ai import exceptions
from pydantic_ai import messages as library
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from retinue.models import neutral
from retinue.models.failures import classify, cut, redacted
from retinue.models.wire import arguments, finish_of, media_note, opaque_for, outcome_text
from retinue.ports.model import Answer, Delta, Finish, Head, OnDelta, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn

FORMAT = "bridge"
FAILURES = (exceptions.AgentRunError, exceptions.UserError, NotImplementedError)

_TRANSIENT = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
    exceptions.ModelRequestTimeout,
    exceptions.UnexpectedModelBehavior,
)
_FINISHES: dict[str | None, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "filtered",
    "tool_call": "calls",
    "error": "other",
    None: "stop",
}
_THINKING_DETAILS = ("reasoning_tokens", "thoughts_tokens")
_Asked = tuple[list[library.ModelMessage], ModelSettings, ModelRequestParameters]


def asked(request: Request, model: Model, name: str) -> _Asked:
    """The arguments of the library's `request`."""
    head = neutral.decode_head(request.head)
    parts: list[library.ModelRequestPart] = [library.SystemPromptPart(head.system)] if head.system else []
    messages: list[library.ModelMessage] = [library.ModelRequest(parts=parts)]
    turns = map(neutral.decode_turn, request.turns)
    messages += [_request(turn) if turn.role == "user" else _response(turn, name) for turn in turns]
    if request.tail:
        messages.append(library.ModelRequest(parts=[library.UserPromptPart(request.tail)]))
    messages = _joined(messages)
    if model.profile.get("tool_call_id_length"):
        messages = model.prepare_messages(messages)
    return messages, _settings(head, model), _parameters(head, model)


class Watcher:
    """Shows the events of one stream as deltas."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._calls = 0

    def __call__(self, event: library.ModelResponseStreamEvent) -> None:
        match event:
            case library.PartStartEvent(part=library.ToolCallPart(tool_name=tool)):
                self._on_delta(Delta(kind="call", text=tool, index=self._calls))
                self._calls += 1
            case (
                library.PartStartEvent(part=library.TextPart(content=text))
                | library.PartDeltaEvent(delta=library.TextPartDelta(content_delta=text))
            ) if text:
                self._on_delta(Delta(kind="text", text=text))
            case (
                library.PartStartEvent(part=library.ThinkingPart(content=text))
                | library.PartDeltaEvent(delta=library.ThinkingPartDelta(content_delta=text))
            ) if text:
                self._on_delta(Delta(kind="thinking", text=text))
            case _:
                pass


def answer(response: library.ModelResponse, name: str) -> Answer:
    if response.state == "incomplete":
        raise cut()
    details = response.provider_details or {}
    refusal = details.get("refusal")
    parts = tuple(_parts(response, name))
    finish = finish_of(_FINISHES.get(response.finish_reason, "other"), parts)
    return Answer(
        parts=(*parts, Text(text=str(refusal))) if refusal else parts,
        finish="refusal" if refusal else finish,
        usage=_usage(response),
        raw_finish=str(details.get("finish_reason") or response.finish_reason or ""),
    )


def failure(error: Exception, name: str, key: str | None) -> ModelError:
    wait = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    said = f"{name}: {redacted(str(error), key)}"
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return ContextOverflow(said, status=status)
    if isinstance(error, exceptions.ModelHTTPError):
        body = error.body if isinstance(error.body, str) else msgspec.json.encode(error.body, enc_hook=str).decode()
        ours = classify(error.status_code, error.headers or {}, body.encode())
        said = f"{name}: {redacted(ours.message, key)}"
        if isinstance(ours, ContextOverflow):
            return ContextOverflow(said, status=status)
        transient = isinstance(error, _TRANSIENT) or ours.transient
        is_final = isinstance(error, exceptions.ModelQuotaExceededError)
        return ModelError(
            said, status=status, transient=transient and not is_final, retry_after=wait or ours.retry_after
        )
    return ModelError(said, transient=isinstance(error, _TRANSIENT), retry_after=wait)


def _settings(head: Head, model: Model) -> ModelSettings:
    settings = ModelSettings()
    if head.max_tokens is not None:
        settings["max_tokens"] = head.max_tokens
    if head.temperature is not None:
        settings["temperature"] = head.temperature
    if head.top_p is not None:
        settings["top_p"] = head.top_p
    if head.tools and not head.parallel_tool_calls and "parallel_tool_calls" not in model.unsupported_settings:
        settings["parallel_tool_calls"] = False
    if head.tools and head.tool_choice != "auto":
        settings["tool_choice"] = head.tool_choice
    if head.reasoning_effort is not None:
        settings["thinking"] = head.reasoning_effort
    elif head.thinking_budget is not None:
        settings["thinking"] = head.thinking_budget > 0
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if (options := msgspec.json.decode(head.options)) and "extra_body" not in model.unsupported_settings:
        settings["extra_body"] = options
    return settings


def _parameters(head: Head, model: Model) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=t.name, description=t.description, parameters_json_schema=dict(t.parameters), strict=False)
        for t in head.tools
    ]
    if head.output_schema is None or head.tools or not model.profile.get("supports_json_schema_output"):
        return ModelRequestParameters(function_tools=tools)
    schema = msgspec.json.decode(head.output_schema, type=dict[str, object])
    wanted = OutputObjectDefinition(json_schema=schema, name="result", strict=False)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=wanted)


def _joined(messages: Sequence[library.ModelMessage]) -> list[library.ModelMessage]:
    """Two requests in a row are one: the system prompt and the first turn, the last turn and the tail."""
    joined: list[library.ModelMessage] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, library.ModelRequest) and isinstance(last, library.ModelRequest):
            joined[-1] = library.ModelRequest(parts=[*last.parts, *message.parts])
        else:
            joined.append(message)
    return joined


def _request(turn: Turn) -> library.ModelRequest:
    parts: list[library.ModelRequestPart] = []
    said: list[library.UserContent] = []
    for part in turn.parts:
        match part:
            case Outcome():
                parts.append(_outcome(part))
            case Text(text=text):
                said.append(text)
            case Media():
                said.append(_media(part))
            case Thinking() | Call():
                pass
    if said:
        alone = said[0] if len(said) == 1 and isinstance(said[0], str) else said
        parts.append(library.UserPromptPart(alone))
    return library.ModelRequest(parts=parts)


def _outcome(outcome: Outcome) -> library.ToolReturnPart:
    text = outcome_text(outcome)
    content = [text, *map(_media, outcome.media)] if outcome.media else text
    part = library.ToolReturnPart(outcome.tool, content, outcome.call)
    match outcome.status:
        case "ok":
            return part
        case "denied" | "interrupted":
            return replace(part, outcome=outcome.status)
        case _:
            return replace(part, outcome="failed")


def _media(media: Media) -> library.BinaryContent | str:
    if media.data is None:
        return media_note(media)
    return library.BinaryContent(b64decode(media.data), media_type=media.mime)


def _response(turn: Turn, name: str) -> library.ModelResponse:
    whole = library.ModelResponse(parts=[])
    parts: list[library.ModelResponsePart] = []
    for part in turn.parts:
        kept = _kept(part, name)
        if kept is not None:
            whole = replace(kept, parts=[])
        match part:
            case Text(text=text):
                parts.extend(kept.parts if kept is not None else [library.TextPart(text)])
            case Thinking() if kept is not None:
                parts.extend(kept.parts)
            case Call():
                first = kept.parts[0] if kept is not None else None
                call = first if isinstance(first, library.ToolCallPart) else library.ToolCallPart(part.tool)
                parts.append(replace(call, args=arguments(part.arguments).decode(), tool_call_id=part.id))
            case _:
                pass
    return replace(whole, parts=parts)


def _kept(part: Part, name: str) -> library.ModelResponse | None:
    kept = opaque_for(part.opaque, FORMAT, name) if isinstance(part, Text | Thinking | Call) else None
    if kept is None:
        return None
    message = library.ModelMessagesTypeAdapter.validate_json(bytes(kept))[0]
    return message if isinstance(message, library.ModelResponse) else None


def _parts(response: library.ModelResponse, name: str) -> Iterator[Part]:
    for part in response.parts:
        match part:
            case library.TextPart(content=text) if text:
                yield Text(text=text, opaque=_opaque(response, part, name))
            case library.ThinkingPart(content=text):
                yield Thinking(text=text, opaque=_opaque(response, part, name))
            case library.ToolCallPart():
                yield Call(
                    id=CallId(""),
                    tool=part.tool_name,
                    arguments=part.args_as_json_str(),
                    wire_id=part.tool_call_id,
                    opaque=_opaque(response, part, name),
                )
            case library.FilePart(content=content):
                yield Media(mime=content.media_type, data=content.base64)
            case _:
                pass


def _opaque(
    response: library.ModelResponse,
    part: library.TextPart | library.ThinkingPart | library.ToolCallPart,
    name: str,
) -> Opaque | None:
    signed = isinstance(part, library.ThinkingPart) and part.signature is not None
    if not (part.id or part.provider_details or signed):
        return None
    kept = library.ModelResponse(
        parts=[part],
        timestamp=response.timestamp,
        provider_name=response.provider_name,
        provider_url=response.provider_url,
        canonical_system=response.canonical_system,
        provider_response_id=response.provider_response_id,
    )
    return Opaque(format=FORMAT, model=name, data=msgspec.Raw(library.ModelMessagesTypeAdapter.dump_json([kept])))


def _usage(response: library.ModelResponse) -> Usage:
    usage = response.usage
    return Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
        thinking=next((usage.details[key] for key in _THINKING_DETAILS if key in usage.details), 0),
    )
