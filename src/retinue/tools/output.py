"""Bounds what a tool returns; what is cut goes into the thread's own files.

The first and the last part are kept, because a command tells what it does at the
top and how it ended at the bottom. The runtime applies `bound` to every result;
tools that page or stream keep within the bounds themselves.
"""

import re
from pathlib import Path

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.schema.agent import ToolOverride

FOLDER = "outputs"
"""Where cut outputs are kept, below the thread's files."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    lines: int = 2_000
    bytes: int = 50_000
    line: int = 2_000
    """Characters of one line."""

    @staticmethod
    def of(override: ToolOverride) -> "Bounds":
        return Bounds() if override.max_output_length is None else Bounds(bytes=max(1, override.max_output_length))


def bound(result: Result, context: ToolContext) -> Result:
    """`result` within the bounds; its full text is saved when something was cut.

    A result that names a saved file has been cut by its tool.
    """
    bounds = Bounds.of(context.override)
    if "saved" in result.metadata or within(result.text, bounds):
        return result
    path = save(context, result.text)
    text = cut(result.text, bounds, f"saved whole as {path}; read it with offset and limit, or grep it")
    return msgspec.structs.replace(result, text=text, metadata={**result.metadata, "saved": path})


def save(context: ToolContext, text: str) -> str:
    """Write `text` among the thread's files under the call's name, and return the path."""
    folder = Path(context.files) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', context.call)}.txt"
    path.write_text(text, encoding="utf-8", errors="replace")
    return str(path)


def within(text: str, bounds: Bounds) -> bool:
    if len(text) > bounds.bytes or (not text.isascii() and len(text.encode(errors="replace")) > bounds.bytes):
        return False
    return text.count("\n") < bounds.lines and (len(text) <= bounds.line or _longest(text) <= bounds.line)


def cut(text: str, bounds: Bounds, where: str) -> str:
    """The first two thirds and the last third of what the bounds leave, and a line that says what is missing."""
    lines = [shorten(line, bounds.line) for line in text.splitlines()]
    head = _fit(lines, bounds.lines * 2 // 3, bounds.bytes * 2 // 3)
    rest = lines[len(head) :]
    tail = _fit(rest[::-1], bounds.lines // 3, bounds.bytes // 3)[::-1]
    missing = len(rest) - len(tail)
    note = f"[… {missing} of {len(lines)} lines left out here; {where}]" if missing else f"[… long lines cut; {where}]"
    return "\n".join([*head, note, *tail])


def shorten(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]}… [{len(line) - limit} more characters]"


def _longest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _fit(lines: list[str], count: int, size: int) -> list[str]:
    """The first lines that fit; a first line too long for the whole room is cut to it."""
    kept: list[str] = []
    for line in lines[:count]:
        size -= len(line.encode(errors="replace")) + 1
        if size < 0:
            break
        kept.append(line)
    if not kept and lines and count:
        room = size + len(lines[0].encode(errors="replace"))
        return [lines[0].encode(errors="replace")[: max(0, room)].decode(errors="ignore")]
    return kept
