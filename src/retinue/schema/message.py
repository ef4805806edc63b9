"""What a conversation is made of, in no provider's words: parts and turns.

`Opaque` carries what one provider wants back unchanged (signatures, encrypted
reasoning); it is sent only to the format and model that made it.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from retinue.schema.ids import CallId

Role = Literal["user", "assistant"]
OutcomeStatus = Literal["ok", "error", "denied", "skipped", "interrupted", "cancelled", "timed_out", "forked"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class Opaque(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: str
    model: str
    data: msgspec.Raw


class Text(_Part, frozen=True, kw_only=True, tag="text"):
    text: str
    opaque: Opaque | None = None


class Thinking(_Part, frozen=True, kw_only=True, tag="thinking"):
    text: str
    opaque: Opaque | None = None


class Media(_Part, frozen=True, kw_only=True, tag="media"):
    """An image or a document: inline base64, or the path of a file of the thread."""

    mime: str
    data: str | None = None
    path: str | None = None
    name: str | None = None


class Call(_Part, frozen=True, kw_only=True, tag="call"):
    """The model asks for a tool. `arguments` is the JSON text as it came, once complete."""

    id: CallId
    tool: str
    arguments: str
    wire_id: str | None = None
    """The provider's id of the call; wire data, never a key."""
    opaque: Opaque | None = None


class Outcome(_Part, frozen=True, kw_only=True, tag="outcome"):
    """What came of a call. `media` goes to the model beside the text where the format can carry it."""

    call: CallId
    tool: str
    status: OutcomeStatus = "ok"
    text: str = ""
    media: tuple[Media, ...] = ()
    metadata: Mapping[str, object] = {}
    """For surfaces and the log; models never see it."""


Part = Text | Thinking | Media | Call | Outcome


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One role's contribution to a request: the unit that is encoded once and kept.

    A user turn may mix outcomes (always first, in call order) with text and
    media. Two turns of one role never follow each other.
    """

    role: Role
    parts: tuple[Part, ...]


def text_of(parts: tuple[Part, ...]) -> str:
    return "".join([p.text for p in parts if isinstance(p, Text)])


def calls_of(parts: tuple[Part, ...]) -> tuple[Call, ...]:
    return tuple([p for p in parts if isinstance(p, Call)])
