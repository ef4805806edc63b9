"""Reads a docstring for what a model should know: the text, and a line for each parameter.

Google (`Args:`), numpy (`Parameters`, underlined) and Sphinx (`:param x:`) forms.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest

import msgspec

_PARAMETERS = {"args", "arguments", "parameters", "params"}
_OTHERS = {"returns", "return", "raises", "yields", "examples", "example", "note", "notes", "see also", "warnings"}
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*(?::\s*(.*))?$")
_SPHINX = re.compile(r":(\w+)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)|:\w+:.*")


class Documentation(msgspec.Struct, frozen=True, kw_only=True):
    summary: str
    parameters: dict[str, str]


def document(docstring: str) -> Documentation:
    """Split a docstring, its indentation already removed."""
    parameters: dict[str, str] = {}
    summary: list[str] = []
    for heading, lines in _sections(docstring.splitlines()):
        if not heading:
            summary += list(_without_fields(lines, parameters))
        elif heading in _PARAMETERS:
            parameters |= _entries(lines)
    return Documentation(summary="\n".join(summary).strip(), parameters=parameters)


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each heading in lower case with the lines below it; the first part has none."""
    heading, body = "", list[str]()
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        name = line.rstrip().removesuffix(":").lower()
        underlined = set(following.strip()) == {"-"}
        if name in _PARAMETERS | _OTHERS and (line.rstrip().endswith(":") or underlined):
            yield heading, body
            heading, body = name, []
        elif set(line.strip()) != {"-"}:
            body.append(line)
    yield heading, body


def _entries(lines: list[str]) -> dict[str, str]:
    """`name: text` (Google) or `name : type` with the text indented below (numpy)."""
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    base = min(indents, default=0)
    found: dict[str, list[str]] = {}
    for line in filter(str.strip, lines):
        entry = _ENTRY.match(line.strip()) if len(line) - len(line.lstrip()) == base else None
        if entry:
            numpy_type = base == 0
            found[entry[1]] = [] if numpy_type else [entry[2] or ""]
        elif found:
            found[next(reversed(found))].append(line.strip())
    return {name: " ".join(text).strip() for name, text in found.items()}


def _without_fields(lines: list[str], parameters: dict[str, str]) -> Iterator[str]:
    """The lines that are not Sphinx fields; what `:param x:` says goes into `parameters`."""
    name: str | None = None
    inside = False
    for line in lines:
        if field := _SPHINX.match(line):
            inside, name = True, field[2] if field[1] == "param" else None
            if name:
                parameters[name] = field[3]
        elif inside and line.startswith(" "):
            if name:
                parameters[name] += f" {line.strip()}"
        else:
            inside = False
            yield line
