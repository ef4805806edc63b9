"""read: a text file by lines with numbers, an image or PDF as media, a notebook as its cells."""

import base64
import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated

import msgspec

from retinue.ports.tool import Result, Target, ToolContext
from retinue.sandbox.descriptors import readable
from retinue.schema.message import Media
from retinue.tools.attempt import Failed, attempt, declare
from retinue.tools.change import MOST
from retinue.tools.output import Bounds, shorten
from retinue.tools.paths import Found, admit, found
from retinue.tools.reading import ReadingTool
from retinue.tools.reads import digest, remember
from retinue.tools.text import decode, lines_from

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"%PDF-", "application/pdf"),
)
_MOST_MEDIA = 5_000_000


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Absolute, or relative to the workspace.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="The first line to read, from 1.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="How many lines to read.")] = 2000


class Read(ReadingTool):
    spec = declare(
        "read",
        "Reads a file. Text comes with line numbers, at most 2,000 lines at a time; go on with offset. "
        "Images and PDFs are shown, notebooks come as their cells. Read a file before you change it.",
        Arguments,
        "read",
    )

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(_read, Arguments, arguments, context)


def _read(arguments: Arguments, context: ToolContext) -> Result:
    with found(arguments.path, "read", context) as place:
        admit(place.target, context)
        if place.target.kind == "absent":
            raise Failed(f"{arguments.path} does not exist.{_near(place, context)}")
        if place.target.kind == "folder":
            raise Failed(f"{arguments.path} is a folder; use `list` or `glob`.")
        if place.state.st_size > MOST:
            return _huge(place, arguments, context)
        data = place.read(MOST)
    remember(context, place.target.path, digest(data))
    metadata: dict[str, object] = {"path": place.target.path, "bytes": len(data)}
    mime = next((mime for magic, mime in _MAGIC if data.startswith(magic)), None)
    if mime and not (mime == "image/webp" and data[8:12] != b"WEBP"):
        return _media(arguments.path, data, mime, metadata)
    text = decode(data)
    if text is None:
        raise Failed(f"{arguments.path} is a binary file of {len(data):,} bytes; it has no lines to show.")
    if arguments.path.endswith(".ipynb") and (cells := _notebook(text.text)) is not None:
        return Result(text=cells, metadata=metadata)
    note = "" if not text.guessed else "[Not UTF-8: shown as Latin-1, so some characters may be wrong.]\n"
    total = text.text.count("\n") + (bool(text.text) and not text.text.endswith("\n"))
    lines = lines_from(text.text, arguments.offset, arguments.limit)
    shown = _numbered(lines, arguments, context, total=total)
    return Result(text=note + shown, metadata=metadata)


def _numbered(lines: Iterable[str], arguments: Arguments, context: ToolContext, *, total: int | None) -> str:
    bounds = Bounds.of(context.override)
    shown: list[str] = []
    room = bounds.bytes - 200
    for number, line in enumerate(islice(lines, min(arguments.limit, bounds.lines - 2)), arguments.offset):
        text = f"{number:>6}\t{shorten(line, bounds.line - 40)}"
        room -= len(text.encode(errors="replace")) + 1
        if room < 0 and shown:
            break
        shown.append(text)
    last = arguments.offset + len(shown) - 1
    if not shown:
        return "[The file is empty.]" if total == 0 else f"[Line {arguments.offset} is past the end ({total} lines).]"
    if total is None or last < total:
        of = "" if total is None else f" of {total}"
        shown.append(f"[Lines {arguments.offset} to {last}{of}; go on with offset={last + 1}.]")
    return "\n".join(shown)


def _huge(place: Found, arguments: Arguments, context: ToolContext) -> Result:
    """Only the lines asked for are held; a state of the whole is not remembered, so it can't be edited."""
    with os.fdopen(readable(place.held), "rb") as file:
        if b"\0" in file.read(8192):
            raise Failed(f"{arguments.path} is a binary file of {place.state.st_size:,} bytes.")
        file.seek(0)
        lines = (line.decode(errors="replace").rstrip("\r\n") for line in islice(file, arguments.offset - 1, None))
        shown = _numbered(lines, arguments, context, total=None)
    size = place.state.st_size
    return Result(text=f"[{size:,} bytes]\n{shown}", metadata={"path": place.target.path, "bytes": size})


def _media(path: str, data: bytes, mime: str, metadata: dict[str, object]) -> Result:
    if len(data) > _MOST_MEDIA:
        raise Failed(f"{path} is {mime} of {len(data):,} bytes; at most {_MOST_MEDIA:,} can be shown.")
    media = Media(mime=mime, data=base64.b64encode(data).decode(), name=path.rpartition("/")[2])
    return Result(text=f"{path} is {mime}, {len(data):,} bytes; it is attached.", media=(media,), metadata=metadata)


class _Cell(msgspec.Struct):
    cell_type: str = "code"
    source: str | list[str] = ""
    outputs: list[dict[str, object]] = []


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


def _notebook(text: str) -> str | None:
    """The cells with their text outputs, or None when it is no notebook after all."""
    try:
        cells = msgspec.json.decode(text, type=_Notebook).cells
    except msgspec.DecodeError:
        return None
    parts: list[str] = []
    for number, cell in enumerate(cells):
        parts.append(f"--- cell {number} ({cell.cell_type})\n{_joined(cell.source)}")
        parts += [f"--- output of cell {number}\n{shown}" for o in cell.outputs if (shown := _output(o))]
    return "\n".join(parts)


def _output(output: Mapping[str, object]) -> str:
    data = output.get("data")
    if "text" in output:
        return _joined(output["text"])
    if isinstance(data, Mapping):
        plain = {str(kind): value for kind, value in msgspec.convert(data, dict[str, object]).items()}
        return _joined(plain["text/plain"]) if "text/plain" in plain else f"[{', '.join(plain)}]"
    return f"{output.get('ename', '')}: {output.get('evalue', '')}" if "ename" in output else ""


def _joined(source: object) -> str:
    return (
        "".join(str(part) for part in msgspec.convert(source, list[str])) if isinstance(source, list) else str(source)
    )


def _near(place: Found, context: ToolContext) -> str:
    """Names in the same folder that look like the one that is missing, as far as they may be seen."""
    from difflib import get_close_matches

    if len(place.held.missing) != 1:
        return ""
    folder = place.held.path.rstrip("/")
    names = [entry.name for entry in os.scandir(folder)]
    near = get_close_matches(place.held.missing[0], names, n=3)
    targets = [Target(op="read", asked=f"{folder}/{name}", path=f"{folder}/{name}") for name in near]
    seen = [t.path.rpartition("/")[2] for t in targets if context.judge(t).verdict == "allow"]
    return f" Did you mean {' or '.join(seen)}?" if seen else ""
