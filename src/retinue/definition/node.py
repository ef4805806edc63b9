"""A value and the place where it was written: what YAML, JSON, TOML and Python values become.

Scalars keep their text beside their value, so that `version: 1.10` stays `1.10`.
Only YAML 1.2's core types are known: `yes`, `off` and dates are text.
"""

import re
from collections.abc import Collection, Mapping
from typing import TypeGuard

import msgspec

MAX_DEPTH = 20
MAX_VALUES = 2000
"""Of a frontmatter, everything counted; real ones have some fifty."""


class Scalar(msgspec.Struct, gc=False):
    value: bool | int | float | str | None
    text: str
    line: int = 1
    column: int = 1
    quoted: bool = True
    goes_on: bool = False
    """Unquoted text over several lines, which YAML joins, without a comma where they meet."""


class Items(msgspec.Struct):
    items: list["Node"]
    line: int = 1
    column: int = 1


class Fields(msgspec.Struct):
    fields: dict[str, "Node"]
    keys: dict[str, tuple[int, int]]
    """Where each key stands: line, column."""
    line: int = 1
    column: int = 1


class Unfit(ValueError):
    """A value of Python that no file could hold, with the code of the problem that it is."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.path = ""


Node = Scalar | Items | Fields
Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})(\.[0-9]*(?:[eE][-+][0-9]{1,2})?)?")
_TOO_LARGE = 10**18
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER_START = frozenset("-+0123456789")


def scalar(text: str, line: int, column: int, *, quoted: bool) -> Scalar:
    if quoted:
        return Scalar(text, text, line, column)
    if text in _CONSTANTS:
        return Scalar(_CONSTANTS[text], text, line, column, quoted=False)
    if text[0] in _NUMBER_START and (match := _NUMBER.fullmatch(text)):
        return Scalar(float(text) if match[1] else int(text), text, line, column, quoted=False)
    return Scalar(text, text, line, column, quoted=False)


def joined_words(node: Node) -> Scalar | None:
    """An unquoted text to which the next line may have been joined by accident."""
    if isinstance(node, Scalar):
        return node if node.goes_on else None
    for inner in node.items if isinstance(node, Items) else node.fields.values():
        if (found := joined_words(inner)) is not None:
            return found
    return None


def plain(node: Node) -> Plain:
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(item) for item in node.items]
        case Fields():
            return {key: plain(value) for key, value in node.fields.items()}


def from_python(value: object, depth: int = 0) -> Node:
    """A node for a value of Python, JSON or TOML. Raises `Unfit` for what nests too deep or can't be kept."""
    if depth > MAX_DEPTH:
        raise Unfit("too-deep", f"nested deeper than {MAX_DEPTH}")
    if value is None:
        return Scalar(None, "")
    if isinstance(value, bool):
        return Scalar(value, str(value).lower())
    if isinstance(value, int | float):
        if not abs(value) < _TOO_LARGE:
            raise Unfit("bad-value", "a number that can't be kept; wanted at most 18 digits")
        return Scalar(value, str(value))
    if is_map(value):
        fields = {str(key): _under(str(key), inner, depth + 1) for key, inner in value.items()}
        return Fields(fields, dict.fromkeys(fields, (1, 1)))
    if is_collection(value):
        return Items([from_python(item, depth + 1) for item in value])
    text = str(value)
    if _SURROGATE.search(text):
        raise Unfit("bad-value", f"{text[:40]!r}, with half a character (a surrogate); wanted text in Unicode")
    return Scalar(text, text)


def _under(key: str, value: object, depth: int) -> Node:
    try:
        return from_python(value, depth)
    except Unfit as unfit:
        unfit.path = f"{key}.{unfit.path}" if unfit.path else key
        raise


def shown(node: Node) -> str:
    """A value as an error message quotes it."""
    match node:
        case Scalar(value=None):
            return "nothing"
        case Scalar():
            text = repr(node.value) if isinstance(node.value, str) else node.text
        case Items():
            text = "a list" if node.items else "an empty list"
        case Fields():
            text = f"a map of {', '.join(list(node.fields)[:3])}" if node.fields else "an empty map"
    return text if len(text) <= 60 else text[:57] + "…" + text[-1]


def is_map(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def is_collection(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, list | tuple | set | frozenset)
