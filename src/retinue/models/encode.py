"""What the wire formats that send a list of messages have in common.

A request is never encoded as a whole: the head is an object left open, turns are
elements, and `body` of a format joins the bytes.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from retinue.models.options import with_options
from retinue.schema.ids import CallId
from retinue.schema.message import Media, Opaque, Outcome

EMPTY = "(empty)"
"""Stands for a turn that has nothing the format can carry: roles must go on alternating."""

encode = msgspec.json.Encoder().encode
_WIRE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_T = TypeVar("_T")
_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])


def open_object(fields: Mapping[str, object], options: bytes, ours: Collection[str]) -> bytes:
    """`fields` and `options` as a JSON object without its closing brace.

    Args:
        ours: Keys that options can neither add nor change, because a definition may
            not reach around its model, its tools or its messages.
    """
    merged = with_options(fields, options)
    kept = {key: value for key, value in merged.items() if key not in ours}
    kept |= {key: fields[key] for key in ours if key in fields}
    return encode(kept)[:-1]


def decode(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    """Decode what a server sent; half a character is replaced, since some cut text between two UTF-16 units."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        whole = _HALF.sub(rb"\\ufffd", data)
        if whole == data:
            raise
        return decoder.decode(whole)


def text_inside(text: str) -> bytes:
    """`text` as it stands inside a JSON string, without the quotes."""
    return encode(text)[1:-1]


def wire_id(call: CallId) -> str:
    """Our id of a call in the letters and the length that every provider takes."""
    return call if _WIRE_ID.fullmatch(call) else hashlib.sha256(call.encode()).hexdigest()[:32]


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


def outcome_text(outcome: Outcome) -> str:
    """What came of a call, in words that say so when it did not go well."""
    if outcome.status == "ok":
        return outcome.text or "(no output)"
    return f"{outcome.status}: {outcome.text}" if outcome.text else outcome.status


def media_note(media: Media) -> str:
    """Stands for a file whose content is not at hand or that the format can't carry."""
    return f"[{media.mime} file {media.name or media.path or 'without a name'}]"
