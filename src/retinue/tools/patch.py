"""Reads a unified diff and applies it to text; touches no file.

A hunk is found by its own lines, near where it says; the numbers may be off,
the lines may not.
"""

import re
from collections.abc import Mapping

import msgspec

from retinue.tools.attempt import Failed
from retinue.tools.text import Text, lines_of

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_NOTHING = "/dev/null"


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to one file. Without `old` it is created, without `new` removed; two names are a rename."""

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    ends_open: bool | None = None
    """Whether the result has no newline at its end; None when the patch does not say."""


def parse(patch: str) -> tuple[FilePatch, ...]:
    lines = lines_of(patch.replace("\r\n", "\n"))
    files: list[FilePatch] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("rename from ") and number + 1 < len(lines):
            names = line.removeprefix("rename from "), lines[number + 1].removeprefix("rename to ")
            number += 2
            if number < len(lines) and lines[number].startswith("index "):
                number += 1
            if not (number < len(lines) and lines[number].startswith("--- ")):
                files.append(FilePatch(old=names[0], new=names[1], hunks=()))
        elif line.startswith("--- ") and number + 1 < len(lines) and lines[number + 1].startswith("+++ "):
            old, new = _name(line[4:], "a/"), _name(lines[number + 1][4:], "b/")
            number, hunks, ends_open = _hunks(lines, number + 2)
            if not hunks:
                raise Failed(f"The patch of {new or old} has no hunk (a line `@@ -1,3 +1,4 @@` and lines below it).")
            files.append(FilePatch(old=old, new=new, hunks=tuple(hunks), ends_open=ends_open))
        else:
            number += 1
    if not files:
        raise Failed("This is no unified diff: there is no `--- a/path` followed by `+++ b/path`.")
    return tuple(files)


def applied(files: tuple[FilePatch, ...], befores: Mapping[str, Text | None]) -> dict[str, str | None]:
    """What each path holds after the patch; None for what is removed."""
    afters: dict[str, str | None] = {}
    for file in files:
        before = befores[file.old] if file.old else None
        source = before.text if before else ""
        if file.old and before is None:
            raise Failed(f"{file.old} does not exist, but the patch changes it.")
        if file.new and file.new != file.old and befores[file.new] is not None:
            raise Failed(f"{file.new} exists already, but the patch creates it.")
        result = _patched(source, file)
        if file.old and file.old != file.new:
            afters[file.old] = None
        if file.new:
            afters[file.new] = result
        elif result:
            raise Failed(f"{file.old}: the patch removes the file but leaves lines of it.")
    return afters


def _name(text: str, prefix: str) -> str | None:
    name = text.split("\t")[0].strip()
    return None if name == _NOTHING else name.removeprefix(prefix)


def _hunks(lines: list[str], number: int) -> tuple[int, list[Hunk], bool | None]:
    hunks: list[Hunk] = []
    ends_open: bool | None = None
    while number < len(lines) and (head := _HUNK.match(lines[number])):
        number += 1
        old: list[str] = []
        new: list[str] = []
        while number < len(lines) and (lines[number][:1] in (" ", "-", "+", "\\") or not lines[number]):
            if lines[number].startswith("--- ") and lines[number + 1 : number + 2] and lines[number + 1][:4] == "+++ ":
                break
            mark, text = lines[number][:1] or " ", lines[number][1:]
            if mark == "\\":
                ends_open = lines[number - 1][:1] in "+ "
            if mark in " -":
                old.append(text)
            if mark in " +":
                new.append(text)
            number += 1
        hunks.append(Hunk(start=int(head[1]), old=tuple(old), new=tuple(new)))
    return number, hunks, ends_open


def _patched(text: str, file: FilePatch) -> str:
    lines = lines_of(text)
    shift = 0
    for number, hunk in enumerate(file.hunks, 1):
        place = _place(lines, hunk, hunk.start - 1 + shift)
        if place is None:
            wanted = "\n".join(hunk.old[:8])
            raise Failed(f"{file.old or file.new}: hunk {number} does not fit; these lines are not there:\n{wanted}")
        lines[place : place + len(hunk.old)] = hunk.new
        shift = place - (hunk.start - 1) + len(hunk.new) - len(hunk.old)
    was_open = bool(text) and not text.endswith("\n")
    open_end = was_open if file.ends_open is None else file.ends_open
    return "\n".join(lines) + ("" if open_end or not lines else "\n")


def _place(lines: list[str], hunk: Hunk, near: int) -> int | None:
    size = len(hunk.old)
    fits = [i for i in range(len(lines) - size + 1) if tuple(lines[i : i + size]) == hunk.old]
    return min(fits, key=lambda i: abs(i - near), default=None)
