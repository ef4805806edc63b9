"""What the wire formats have in common: how a request is joined, and how an answer is folded and told.

A format is pure: it turns neutral turns into fragments, joins fragments into a
request body, and folds what comes back into an answer. A request is never encoded as
a whole: the head is an object left open, turns are elements, and `body` joins the
bytes. Connections and keys belong to `retinue.models.transport` and
`retinue.models.provider`.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, Literal, TypeVar

import msgspec

from retinue.ports.model import Answer, Delta, Finish, Fragment, Head, OnDelta, Request
from retinue.schema.agent import ReasoningEffort
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Turn

Told = Literal["text", "thinking"]
_USER = b'{"role":"user"'
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
EMPTY = "(empty)"
"""Stands for a turn that has nothing the format can carry: roles must go on alternating."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
BUDGETS: Mapping[ReasoningEffort, int] = {"low": 2048, "medium": 8192, "high": 24576}

Counts = dict[str, int | float | str | bool | list[object] | dict[str, object] | None]
"""What a provider calls usage."""

encode = msgspec.json.Encoder().encode
_object = dict[str, object]
_WIRE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_REASONS = re.compile(r"(?:.*/)?(o\d|gpt-[5-9]|codex)(?!.*-chat)")
_TEXTUAL = re.compile(r"text/|image/svg\+xml|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql)\b")
_T = TypeVar("_T")
_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Reader(ABC):
    """Folds one answer: fed with the data of each server-sent event, or once with a whole body.

    What is told between two flushes comes to who watches as one delta: waking them up
    is what costs.
    """

    format: ClassVar[str]

    def __init__(self, model: str, on_delta: OnDelta | None = None) -> None:
        self._model = model
        self._on_delta = on_delta
        self._telling: Told = "text"
        self._told: list[str] = []
        self._calls_told = 0

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Raises `ModelError` when the provider reports a failure inside the stream."""

    @abstractmethod
    def answer(self) -> Answer:
        """The whole answer, once the stream has ended.

        Raises:
            ModelError: transient, when the stream was cut before the answer was whole.
        """

    def flush(self) -> None:
        """Pass on what was told since the last time."""
        if self._told:
            text = "".join(self._told)
            self._told.clear()
            if text and self._on_delta is not None:
                self._on_delta(Delta(kind=self._telling, text=text))

    def _tell(self, kind: Told, text: str) -> None:
        if kind != self._telling:
            self.flush()
            self._telling = kind
        self._told.append(text)

    def _tell_call(self, tool: str) -> None:
        self.flush()
        if self._on_delta is not None:
            self._on_delta(Delta(kind="call", text=tool, index=self._calls_told))
        self._calls_told += 1

    def _decoded(self, decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError as error:
            # Some servers cut text between two UTF-16 units.
            if (whole := _HALF.sub(rb"\\ufffd", data)) != data:
                return self._decoded(decoder, whole)
            raise ModelError(f"the provider sent what can't be read: {error}", transient=True) from error

    def _opaque(self, data: bytes) -> Opaque:
        return Opaque(format=self.format, model=self._model, data=msgspec.Raw(data))


class Format(ABC):
    """One wire format.

    Args:
        max_output: The longest answer of the model it is used for.
        renamed: Whether Chat calls it `max_completion_tokens`, as OpenAI does and most compatible servers do not.
    """

    _reader: ClassVar[type[Reader]]
    _path: ClassVar[str] = ""
    _content: ClassVar[bytes] = b"content"
    _stream_end: ClassVar[bytes] = b'],"stream":true}'

    def __init__(self, *, max_output: int = 8192, renamed: bool = False) -> None:
        self._max_output = max_output
        self._renamed = renamed

    @abstractmethod
    def encode_head(self, head: Head, model: str) -> Fragment: ...

    @abstractmethod
    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        """The turn as comma-joined JSON elements of the format's message array.

        Opaque data goes back only when its format and model match exactly.
        """

    def path(self, model: str, *, stream: bool) -> str:
        """Appended to the provider's base URL."""
        return self._path

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body(self, request: Request, model: str) -> bytes:
        turns = [turn.data for turn in request.turns if turn.data]
        if request.tail:
            self._add_tail(turns, request, model)
        head = request.head.data if turns else request.head.data.removesuffix(b",")
        return b"".join((head, b",".join(turns), self._stream_end if request.stream else b"]}"))

    def _add_tail(self, turns: list[bytes], request: Request, model: str) -> None:
        """Into the last user message, because two may not follow each other."""
        block = encode(self._block(request.tail))
        if turns and turns[-1].startswith(_USER):
            turns[-1] = b"%b,%b]}" % (turns[-1][: -len("]}")], block)
        else:
            turns.append(b'{"role":"user","%b":[%b]}' % (self._content, block))

    def _block(self, text: str) -> Mapping[str, object]:
        """Text as an item of a message's content."""
        return {"type": "text", "text": text}

    def reader(self, model: str, on_delta: OnDelta | None = None) -> Reader:
        return self._reader(model, on_delta)

    def parse(self, body: bytes, model: str) -> Answer:
        """A whole answer that was not streamed."""
        reader = self._reader(model)
        reader.feed(body)
        return reader.answer()


def open_object(fields: Mapping[str, object], options: bytes, ours: Collection[str]) -> bytes:
    """`fields` without the empty ones and `options` as a JSON object without its closing brace.

    Args:
        options: A JSON object that goes over the fields, objects merged one level deep.
        ours: Keys that options can neither add nor change, because a definition may
            not reach around its model, its tools or its messages.
    """
    merged = {key: value for key, value in fields.items() if value is not None}
    theirs = msgspec.json.decode(options, type=_object)
    merged |= {key: _merged(merged.get(key), value) for key, value in theirs.items() if key not in ours}
    return encode(merged)[:-1]


def _merged(ours: object, theirs: object) -> object:
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return theirs
    return {**msgspec.convert(ours, _object), **msgspec.convert(theirs, _object)}


def openai_settings(head: Head, model: str) -> dict[str, object]:
    """What both formats of OpenAI say alike. Its models that reason refuse sampling settings."""
    reasons = _REASONS.match(model) is not None
    return {
        "model": model,
        "tool_choice": head.tool_choice if head.tools and head.tool_choice != "auto" else None,
        "parallel_tool_calls": False if head.tools and not head.parallel_tool_calls else None,
        "temperature": None if reasons else head.temperature,
        "top_p": None if reasons else head.top_p,
    }


def tokens(usage: Counts, name: str, inner: str = "") -> int:
    """A number of a provider's usage, or of the details in it; what is not told is 0."""
    told = usage.get(name)
    found = told.get(inner) if isinstance(told, dict) else told
    return found if isinstance(found, int) else 0


def finish_of(told: Finish, parts: Sequence[Part]) -> Finish:
    """What a provider says of the end, corrected: many say that they stopped when they call."""
    return "calls" if told in ("stop", "other") and any(isinstance(p, Call) for p in parts) else told


def call_id(call: CallId) -> str:
    """Our id of a call in the letters and the length that every provider takes."""
    return call if _WIRE_ID.fullmatch(call) else hashlib.sha256(call.encode()).hexdigest()[:32]


def tool_name(tool: str) -> str:
    """The name of a tool that was called, in the letters that every provider takes.

    Models invent names, and a history that holds one with a dot in it would be refused for ever.
    """
    return tool if _NAME.fullmatch(tool) else _NOT_IN_NAMES.sub("_", tool)[:64] or "unnamed"


def arguments(text: str) -> bytes:
    """A call's arguments as a JSON object; what is not one becomes an empty one.

    Providers refuse a history with broken JSON in it; the call's outcome tells the
    model what was wrong.
    """
    raw = text.encode()
    try:
        _arguments.decode(raw)
    except msgspec.DecodeError:
        return b"{}"
    return raw


def opaque_for(opaque: Opaque | None, format: str, model: str) -> msgspec.Raw | None:
    """What this format and model want back unchanged, and nobody else may see."""
    return opaque.data if opaque is not None and (opaque.format, opaque.model) == (format, model) else None


def outcomes_of(turn: Turn) -> list[Outcome]:
    return [part for part in turn.parts if isinstance(part, Outcome)]


def said(turn: Turn, text: Callable[[str], _T], media: Callable[[Media], _T]) -> list[_T]:
    """What a user turn holds beside outcomes, in the format's words."""
    return [
        text(part.text) if isinstance(part, Text) else media(part)
        for part in turn.parts
        if isinstance(part, Media) or (isinstance(part, Text) and part.text.strip())
    ]


def outcome_text(outcome: Outcome) -> str:
    """What came of a call, in words that say so when it did not go well."""
    if outcome.status == "ok":
        return outcome.text or "(no output)"
    return f"{outcome.status}: {outcome.text}" if outcome.text else outcome.status


def data_url(media: Media) -> str:
    return f"data:{media.mime};base64,{media.data}"


def media_note(media: Media) -> str:
    """Stands for a file whose content is not at hand or that the format can't carry."""
    return f"[{media.mime} file {media.name or media.path or 'without a name'}]"


def media_text(media: Media) -> str:
    """A file that the format can't carry as one: its text when it has any. A refused file would end its thread."""
    if media.data is None or not _TEXTUAL.match(media.mime):
        return media_note(media)
    try:
        return f"{media_note(media)}\n{b64decode(media.data).decode('utf-8', 'replace')}"
    except ValueError:
        return media_note(media)
