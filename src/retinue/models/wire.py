"""What the wire formats have in common: how a request is joined, and how an answer is folded and told.

A format is pure: it turns neutral turns into fragments, joins fragments into a
request body, and folds what comes back into an answer. Connections and keys belong
to `retinue.models.transport` and `retinue.models.provider`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, TypeVar

import msgspec

from retinue.models.encode import encode
from retinue.ports.model import Answer, Delta, Fragment, Head, OnDelta, Request
from retinue.schema.errors import ModelError
from retinue.schema.message import Opaque, Turn

Told = Literal["text", "thinking"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
_USER = b'{"role":"user"'
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_T = TypeVar("_T")


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
        max_tokens_field: What Chat calls it; OpenAI has renamed it, most compatible servers have not.
    """

    name: ClassVar[str]
    _reader: ClassVar[type[Reader]]
    _path: ClassVar[str] = ""
    _content: ClassVar[bytes] = b"content"
    _stream_end: ClassVar[bytes] = b'],"stream":true}'

    def __init__(self, *, max_output: int = 8192, max_tokens_field: MaxTokensField = "max_tokens") -> None:
        self._max_output = max_output
        self._max_tokens_field = max_tokens_field

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

    def headers(self, key: str | None) -> Mapping[str, str]:
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
