"""Replaces exact text, once or everywhere, and explains itself when it can't."""

import difflib
from collections.abc import Sequence
from typing import Annotated

import msgspec

from retinue.tools.attempt import Failed
from retinue.tools.text import lines_of

_MOST_COMPARED = 40
"""Places in a file that are compared closely with a text that was not found."""


class Replacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old_string: Annotated[str, msgspec.Meta(description="The text to replace, exactly as it stands in the file.")]
    new_string: Annotated[str, msgspec.Meta(description="What to put in its place.")]
    replace_all: Annotated[bool, msgspec.Meta(description="Replace every occurrence.")] = False


def replaced(text: str, edits: Sequence[Replacement], path: str) -> str:
    """`text` after all edits in order; each sees what the one before it left."""
    for number, edit in enumerate(edits, 1):
        which = f"Edit {number} of {len(edits)} in {path}" if len(edits) > 1 else f"The edit of {path}"
        text = _replaced(text, edit, which)
    return text


def _replaced(text: str, edit: Replacement, which: str) -> str:
    old, new = edit.old_string, edit.new_string
    if "\r\n" not in text:
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        raise Failed(f"{which}: old_string is empty. To create or replace a file use `write`.")
    if old == new:
        raise Failed(f"{which}: old_string and new_string are the same; there is nothing to change.")
    count = text.count(old)
    if count == 0:
        raise Failed(f"{which}: old_string is not in the file. Nothing was changed.\n{nearest(text, old)}")
    if count > 1 and not edit.replace_all:
        places = ", ".join(str(n) for n in _line_numbers(text, old))
        raise Failed(
            f"{which}: old_string is there {count} times (lines {places}). Nothing was changed. "
            "Give more lines around it so that it is found once, or set replace_all."
        )
    return text.replace(old, new)


def nearest(text: str, wanted: str) -> str:
    """Where in `text` something like `wanted` stands, and how it differs."""
    lines, sought = lines_of(text), lines_of(wanted)
    if not lines:
        return "The file is empty."
    size = len(sought)
    stripped = {line.strip() for line in sought if line.strip()}
    hits = [line.strip() in stripped for line in lines]
    starts = range(max(1, len(lines) - size + 1))
    likely = sorted(starts, key=lambda start: -sum(hits[start : start + size]))[:_MOST_COMPARED]
    if not any(hits):
        likely = sorted(starts, key=lambda start: -_resembles(lines[start], sought[0]))[:_MOST_COMPARED]
    best = max(likely, key=lambda start: _resembles("\n".join(lines[start : start + size]), wanted))
    window = lines[best : best + size]
    if _resembles("\n".join(window), wanted) < 0.5:
        return "Nothing in the file is like it. Read the file again."
    if [line.strip() for line in window] == [line.strip() for line in sought]:
        return f"Lines {best + 1} to {best + len(window)} differ from it only in white space:\n{_shown(window, best)}"
    differences = [line for line in difflib.ndiff(sought, window) if line[0] in "-+"]
    told = "\n".join(differences[:20])
    return f"Nearest are lines {best + 1} to {best + len(window)} (- is yours, + is the file's):\n{told}"


def _resembles(a: str, b: str) -> float:
    matcher = difflib.SequenceMatcher(None, a[:4000], b[:4000], autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() > 0.4 and matcher.quick_ratio() > 0.4 else 0.0


def _shown(lines: Sequence[str], start: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines[:20], start + 1))


def _line_numbers(text: str, wanted: str) -> list[int]:
    numbers: list[int] = []
    place = text.find(wanted)
    while place >= 0 and len(numbers) < 20:
        numbers.append(text.count("\n", 0, place) + 1)
        place = text.find(wanted, place + len(wanted))
    return numbers
