"""grep: lines that match a regular expression, in the newest files first.

rg first only names the files in which something matches; those that may be seen
are then searched through the descriptors that were judged. Without rg, Python does both.
"""

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Literal

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.sandbox.descriptors import Located, beneath, content
from retinue.tools.attempt import Failed, attempt, declare
from retinue.tools.change import MOST
from retinue.tools.output import shorten
from retinue.tools.paths import Found
from retinue.tools.reading import ReadingTool
from retinue.tools.search import Hit, batches, folder, newest_first, shown_name
from retinue.tools.text import decode, lines_of
from retinue.tools.walk import files_below, files_with, ripgrep, run

_LONGEST = 500
"""Characters shown of a line; grep is for finding, read for reading."""


_LOOKS_AROUND = re.compile(r"\\[AZ]|\(\?")


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="A regular expression.")]
    path: Annotated[str, msgspec.Meta(description="The folder or file to search.")] = "."
    include: Annotated[str | None, msgspec.Meta(description="Only files whose name matches, for example `*.py`.")] = (
        None
    )
    output: Annotated[
        Literal["content", "files", "count"],
        msgspec.Meta(description="Matching lines, files only, or counts per file."),
    ] = "content"
    ignore_case: bool = False
    context: Annotated[int, msgspec.Meta(ge=0, le=20, description="Lines to show before and after a match.")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=2000, description="At most so many lines, or files.")] = 200


class Line(msgspec.Struct, frozen=True):
    number: int
    text: str
    matches: bool


class Grep(ReadingTool):
    spec = declare(
        "grep",
        "Searches file contents with a regular expression, the most recently changed files first. "
        "Leaves out what .gitignore leaves out, and binary files.",
        Arguments,
        "read",
    )

    def __init__(self, program: str | None = None, *, use_program: bool = True) -> None:
        self._program = (program or ripgrep()) if use_program else None

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(self._grep, Arguments, arguments, context)

    def _grep(self, arguments: Arguments, context: ToolContext) -> Result:
        shown: list[str] = []
        with folder(arguments.path, context) as root, closing(self._matches(root, arguments, context)) as matches:
            for name, lines in matches:
                shown += _shown(name, lines, arguments)
                if len(shown) > arguments.limit:
                    break
        if not shown:
            return Result(text=f"No match for {arguments.pattern}.")
        note = f"[The first {arguments.limit}; there are more. Narrow the pattern, the path or include.]"
        return Result(text="\n".join([*shown[: arguments.limit], *([note] if len(shown) > arguments.limit else [])]))

    def _matches(self, root: Found, arguments: Arguments, context: ToolContext) -> Generator[tuple[str, list[Line]]]:
        if root.target.kind == "file":
            hit = Hit(name=shown_name(root.target.path, context), held=root.held)
            yield from self._search([hit], arguments)
            return
        names = newest_first(root.held, self._candidates(root, arguments))
        for batch in batches(root, names, context):
            if batch:
                yield from self._search(batch, arguments)

    def _candidates(self, root: Found, arguments: Arguments) -> list[str]:
        """Names of files in which something matches, before anybody asks whether they may be seen."""
        if self._program:
            return files_with(root.held, _flags(arguments), arguments.include, program=self._program)
        test = _tester(arguments)
        names = files_below(root.held, arguments.include, program=None)
        return [name for name in names if (place := beneath(root.held, name)) and _holds_match(place, test)]

    def _search(self, hits: Sequence[Hit], arguments: Arguments) -> Iterator[tuple[str, list[Line]]]:
        found = _by_rg(self._program, hits, arguments) if self._program else _by_python(hits, arguments)
        return ((hit.name, lines) for hit in hits if (lines := found.get(hit.name)))


def _flags(arguments: Arguments) -> list[str]:
    case = ["--ignore-case"] if arguments.ignore_case else []
    return [*case, f"--regexp={arguments.pattern}"]


class _Text(msgspec.Struct):
    text: str = ""


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None


class _Event(msgspec.Struct):
    type: str
    data: _Data


def _by_rg(program: str, hits: Sequence[Hit], arguments: Arguments) -> dict[str, list[Line]]:
    names = {f"/proc/self/fd/{hit.held.fd}" if hasattr(os, "O_PATH") else hit.held.path: hit.name for hit in hits}
    around = [f"--context={arguments.context}"] if arguments.output == "content" else []
    command = [program, "--no-config", "--json", *around, *_flags(arguments), "--", *names]
    output = run(command, folder="/", descriptors=tuple(hit.held.fd for hit in hits))
    found: dict[str, list[Line]] = {}
    decoder = msgspec.json.Decoder(_Event)
    for line in output.splitlines():
        event = decoder.decode(line)
        data = event.data
        if event.type in ("match", "context") and data.path and data.lines and data.line_number:
            text = data.lines.text.rstrip("\r\n")
            found.setdefault(names[data.path.text], []).append(Line(data.line_number, text, event.type == "match"))
    return found


def _by_python(hits: Sequence[Hit], arguments: Arguments) -> dict[str, list[Line]]:
    test = _tester(arguments).search
    found: dict[str, list[Line]] = {}
    around = arguments.context if arguments.output == "content" else 0
    for hit in hits:
        text = decode(content(hit.held, MOST))
        lines = lines_of(text.text) if text else []
        matching = {number for number, line in enumerate(lines) if test(line)}
        near = sorted({n for m in matching for n in range(m - around, m + around + 1) if 0 <= n < len(lines)})
        if near:
            found[hit.name] = [Line(n + 1, lines[n], n in matching) for n in near]
    return found


def _tester(arguments: Arguments) -> re.Pattern[str]:
    try:
        return re.compile(arguments.pattern, re.MULTILINE | (re.IGNORECASE if arguments.ignore_case else 0))
    except re.error as error:
        raise Failed(f"The pattern can't be used: {error}.") from None


def _holds_match(place: Located, test: re.Pattern[str]) -> bool:
    """Whether a line matches; a pattern that can't look past its line is tried on the whole text first."""
    try:
        text = decode(content(place, MOST))
    finally:
        os.close(place.fd)
    if text is None or (not _LOOKS_AROUND.search(test.pattern) and not test.search(text.text)):
        return False
    return any(test.search(line) for line in lines_of(text.text))


def _shown(name: str, lines: Sequence[Line], arguments: Arguments) -> list[str]:
    if arguments.output == "files":
        return [name]
    if arguments.output == "count":
        return [f"{name}:{sum(line.matches for line in lines)}"]
    return [f"{name}:{x.number}{':' if x.matches else '-'}{shorten(x.text, _LONGEST)}" for x in lines]
