"""What the wire formats that send a list of messages write and read alike.

A request is never encoded as a whole: the head is an object left open, turns are
elements, and `body` of a format joins the bytes.
"""

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import msgspec

from retinue.ports.model import Head
from retinue.schema.agent import ReasoningEffort
from retinue.schema.ids import CallId
from retinue.schema.message import Media, Opaque, Outcome, Text, Turn

EMPTY = "(empty)"
"""Stands for a turn that has nothing the format can carry: roles must go on alternating."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
BUDGETS: Mapping[ReasoningEffort, int] = {"low": 2048, "medium": 8192, "high": 24576}

Counts = dict[str, int | float | str | bool | list[object] | dict[str, object] | None]
"""What a provider calls usage."""

encode = msgspec.json.Encoder().encode
_object = dict[str, object]
_WIRE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_REASONS = re.compile(r"(?:.*/)?(o\d|gpt-[5-9]|codex)(?!.*-chat)")
_TEXTUAL = re.compile(r"text/|image/svg\+xml|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql)\b")
_T = TypeVar("_T")
_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
    found: object = usage.get(name)
    if inner:
        found = found.get(inner) if isinstance(found := usage.get(name), dict) else None
    return found if isinstance(found, int) else 0


def wire_id(call: CallId) -> str:
    """Our id of a call in the letters and the length that every provider takes."""
    return call if _WIRE_ID.fullmatch(call) else hashlib.sha256(call.encode()).hexdigest()[:32]


def wire_name(tool: str) -> str:
    """The name of a tool that was called, in the letters that every provider takes.

    Models invent names, and a history that holds one with a dot in it would be refused for ever.
    """
    return _NOT_IN_NAMES.sub("_", tool)[:64] or "unnamed"


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
