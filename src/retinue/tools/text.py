"""Bytes of a file as text and back, keeping encoding, byte-order mark and line endings."""

import codecs
import difflib

import msgspec

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MOST_DIFFED = 1_000_000
_MOST_SHOWN = 50_000


class Text(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    """With `\\n` between lines, unless the file mixes line endings; then just as it is."""
    encoding: str = "utf-8"
    bom: bytes = b""
    newline: str = "\n"
    guessed: bool = False
    """The encoding is not told by the bytes: neither a mark nor valid UTF-8."""


def decode(data: bytes) -> Text | None:
    """The text in `data`, or None when it is binary."""
    bom, encoding = next(((b, e) for b, e in _BOMS if data.startswith(b)), (b"", "utf-8"))
    if not bom and b"\0" in data[:8192]:
        return None
    guessed = False
    try:
        text = data[len(bom) :].decode(encoding)
    except UnicodeDecodeError:
        bom, encoding, guessed = b"", "latin-1", True
        text = data.decode(encoding)
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
    return Text(
        text=text.replace("\r\n", "\n") if windows else text,
        encoding=encoding,
        bom=bom,
        newline="\r\n" if windows else "\n",
        guessed=guessed,
    )


def encode(text: str, like: Text) -> bytes:
    """`text` in the form of `like`. Raises UnicodeEncodeError when its encoding can't hold it."""
    if like.newline == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return like.bom + text.encode(like.encoding)


def lines_of(text: str) -> list[str]:
    """Lines as editors and grep count them: only `\\n` ends one."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def lines_from(text: str, first: int, count: int) -> list[str]:
    """`count` lines from number `first`, counted from 1, without splitting the rest."""
    place, left = 0, first - 1
    while left:
        ends = text.count("\n", place, place + 65_536)
        if ends >= left:
            break
        left -= ends
        place += 65_536
        if place >= len(text):
            return []
    for _ in range(left):
        place = text.find("\n", place) + 1
    lines = text[place:].split("\n", count) if place < len(text) else []
    if len(lines) > count or (lines and lines[-1] == ""):
        lines.pop()
    return lines


def diff(before: str, after: str, path: str, *, created: bool = False, removed: bool = False) -> str:
    """A unified diff, or a sentence when it would be too large to read."""
    if len(before) + len(after) > _MOST_DIFFED:
        return f"{path}: {len(before):,} characters become {len(after):,}; too large to show as a diff\n"
    old = "/dev/null" if created else f"a/{path}"
    new = "/dev/null" if removed else f"b/{path}"
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, new)
    shown = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}\n[… diff cut]\n"
