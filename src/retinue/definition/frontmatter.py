"""Bytes → frontmatter and body, under the limits on size and characters.

The size is looked at before anything is decoded. What the YAML says is
`retinue.definition.rescue`'s business.
"""

import re

import msgspec

from retinue.definition.tree import Refused

MAX_FILE = 1024 * 1024
MAX_FRONTMATTER = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_OPEN = re.compile(rb"((?:[ \t]*\r?\n)*)---[ \t]*(?:\r?\n|\Z)")
_CLOSE = re.compile(rb"---[ \t]*+\r?(?:\n|\Z)")
_PLAIN = bytes((9, 10, *range(32, 127)))
UNWANTED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)  # NEL, LS and PS are line breaks to YAML and to few editors; the bidirectional ones hide what a line says
_BODY_CONTROLS = b"\x00\x08\x1b\x7f"
"""Those that can hide what a terminal shows; a body is long, and looking for each one costs."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    block: str
    """The frontmatter without its fences, line breaks as LF."""
    block_line: int
    body: str
    body_line: int
    body_start: int
    """Where the body starts in the bytes."""
    late: bool = False
    """Blank lines stand before it."""
    controls: tuple[int, int] | None = None
    """Where the body holds its first control character."""


def split(data: bytes) -> Parts | None:
    """The parts of a file, or None when it has no frontmatter. Raises `Refused`."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Refused("the file is UTF-16; save it as UTF-8", 1, 1, "not-utf8")
    opening = _OPEN.match(data, start, start + 4096)
    if opening is None:
        return None
    begin = opening.end()
    first_line = opening[0].count(b"\n") + 1
    closing = _closing(data, begin)
    if closing is None:
        if len(data) - begin > MAX_FRONTMATTER:
            limit = f"{MAX_FRONTMATTER // 1024} KiB"
            raise Refused(f"the frontmatter has no end within {limit}", first_line, 1, "frontmatter-too-large")
        raise Refused("the frontmatter has no end; a line '---' is wanted", first_line - 1, 1, "unclosed-frontmatter")
    if len(data) > MAX_FILE:
        size = f"{len(data) / 1048576:.1f} MiB"
        raise Refused(f"the file has {size}; at most {MAX_FILE // 1048576} MiB is read", 1, 1, "file-too-large")
    raw = data[begin : closing.start()]
    end = closing.end()
    body_line = first_line + raw.count(b"\n") + 1
    raw_body = data[end:]
    return Parts(
        block=_block(raw, first_line),
        block_line=first_line,
        body=_decoded(raw_body, body_line),
        body_line=body_line,
        body_start=end,
        late=bool(opening[1]),
        controls=_first_control(raw_body, body_line),
    )


def _closing(data: bytes, begin: int) -> re.Match[bytes] | None:
    """The line that ends the frontmatter; `begin` starts a line."""
    at, last = begin - 1, begin + MAX_FRONTMATTER + 4
    while at >= 0:
        closing = _CLOSE.match(data, at + 1, last)
        if closing is not None and (closing.end() == len(data) or closing[0].endswith(b"\n")):
            return closing
        at = data.find(b"\n---", at + 1, last)
    return None


def decoded_body(data: bytes) -> str:
    """A file without frontmatter as text. Raises `Refused`."""
    if len(data) > MAX_FILE:
        raise Refused(f"the file is larger than {MAX_FILE // 1048576} MiB", 1, 1, "file-too-large")
    return _decoded(data.removeprefix(_BOM), 1)


def _decoded(raw: bytes, line: int) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line, column = _place(raw, error.start, line)
        raise Refused(f"byte 0x{raw[error.start]:02x} is not UTF-8", line, column, "not-utf8") from None
    return text.replace("\r\n", "\n") if "\r" in text else text


def _block(raw: bytes, line: int) -> str:
    if not raw.translate(None, _PLAIN):
        return raw.decode()
    block = _decoded(raw, line)
    if found := UNWANTED.search(block):
        before = block[: found.start()]
        column = found.start() - before.rfind("\n")
        name = f"U+{ord(found[0]):04X}"
        raise Refused(
            f"{name} may not stand in the frontmatter", line + before.count("\n"), column, "control-character"
        )
    return block


def _first_control(raw: bytes, line: int) -> tuple[int, int] | None:
    found = [raw.find(code) for code in _BODY_CONTROLS if code in raw]
    return _place(raw, min(found), line) if found else None


def _place(raw: bytes, index: int, line: int) -> tuple[int, int]:
    before = raw[:index]
    return line + before.count(b"\n"), index - before.rfind(b"\n")
