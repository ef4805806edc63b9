"""Lists in pages: a cursor is opaque to callers, and names the last thing they have seen."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from retinue.schema.errors import UsageError

_T = TypeVar("_T")
_C = TypeVar("_C")


class Page(msgspec.Struct, Generic[_T], frozen=True, kw_only=True):
    items: list[_T]
    next: str | None = None
    """Give it as `cursor` to get what follows; none: this was all."""


def cursor(position: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def position(text: str | None, kind: type[_C]) -> _C | None:
    """Where a cursor points.

    Raises:
        UsageError: it is none of ours.
    """
    if text is None:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as e:
        raise UsageError("the cursor is none of ours", hint="take it from `next` of the page before") from e


def page(items: Sequence[_T], limit: int, at: Callable[[_T], object]) -> Page[_T]:
    """The first `limit` of what was read, which was one more where there is one more."""
    shown = list(items[:limit])
    return Page(items=shown, next=cursor(at(shown[-1])) if len(items) > limit else None)


def slice_of(items: Sequence[_T], text: str | None, limit: int) -> Page[_T]:
    """A page of a list that only grows, or whose order does not change."""
    start = position(text, int) or 0
    if start < 0:
        raise UsageError("the cursor is none of ours")
    end = start + limit
    return Page(items=list(items[start:end]), next=cursor(end) if len(items) > end else None)
