"""What one wire format must say, so that one transport can speak all of them.

A format is pure: it turns neutral turns into fragments, joins fragments into a
request body, and folds what comes back into an answer. Connections, retries and
keys belong to `retinue.models.transport`.
"""

from collections.abc import Mapping
from typing import Protocol

from retinue.ports.model import Answer, Fragment, Head, OnDelta, Request
from retinue.schema.errors import ModelError
from retinue.schema.message import Turn


class Reader(Protocol):
    """Folds one streamed answer. Fed with each server-sent event in order."""

    def feed(self, event: str, data: bytes, on_delta: OnDelta | None) -> None:
        """Take one event (`event` is empty when the stream does not name them).

        Raises:
            ModelError: the provider reported a failure inside the stream.
        """
        ...

    def answer(self) -> Answer:
        """The whole answer, once the stream has ended.

        Raises:
            ModelError: transient, when the stream was cut before the answer was whole.
        """
        ...


class Format(Protocol):
    @property
    def name(self) -> str: ...

    def encode_head(self, head: Head, model: str) -> Fragment: ...

    def encode_turn(self, turn: Turn, model: str) -> Fragment:
        """The turn as comma-joined JSON elements of the format's message array.

        Opaque data goes back only when its format and model match exactly.
        """
        ...

    def path(self, model: str, *, stream: bool) -> str:
        """Appended to the provider's base URL."""
        ...

    def headers(self, key: str | None) -> Mapping[str, str]: ...

    def body(self, request: Request, model: str) -> bytes: ...

    def reader(self, model: str) -> Reader: ...

    def parse(self, body: bytes, model: str) -> Answer:
        """A whole answer that was not streamed."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """What a response that is not 2xx means: overflow, rate limit (`retry_after`), overload, refusal."""
        ...
