"""Frontmatter that is not quite YAML → nodes, without ever guessing at power.

A file whose YAML is whole is read whole. Otherwise it is cut at the lines that
start a key and each piece is read alone, in its own lines: a text that breaks
YAML becomes plain text with a warning, and any other broken piece is an error.
Guards keep power out of text; where one is touched the file is refused:

- a line that starts with a key that grants power is that key, whatever quote or
  bracket was left open above it;
- a rescued text may not hold such a key on a line of its own, indented or not;
- nor inside a line, when the file has no such key elsewhere: a line break may
  have been lost;
- no text may go on with lines that read like a list of tools or of permissions:
  the line above them may have been lost, or one put between.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

import msgspec

from retinue.definition.codes import Report
from retinue.definition.keys import BY_NAME, canonical_name, find, grants_power, is_known_text, is_text
from retinue.definition.lines import read_lines
from retinue.definition.node import MAX_VALUES, Fields, Items, Node, Scalar
from retinue.definition.toolnames import canonical
from retinue.definition.tree import Broken, Refused, read_yaml

_KEY_LINE = re.compile(r"""^(["']?)([A-Za-z_][\w.-]*)\1[ \t]*:(?=[ \t]|$)""", re.MULTILINE)
_INNER_KEY = re.compile(r"""^[ \t]+(?:-[ \t]+)?["']?([A-Za-z_][\w-]*)["']?[ \t]*:(?=[ \t]|$)""", re.MULTILINE)
_BLOCK_MARK = re.compile(r"[|>][+-]?[0-9]?[+-]?")
_MOST_PIECES = 200
_MANY_LINES = {"description", "tool_description"}
"""Texts that may go on over several lines; what follows another key is not its text."""

_LIMITING = "tools allowed_tools disallowed_tools permissions permission_mode readonly allowed_commands sandbox model"
"""Keys without which an agent may do more, or runs on another model."""


def _spellings() -> list[str]:
    found: list[str] = []
    for name in _LIMITING.split():
        for spelling in (name, *BY_NAME[name].aliases):
            head, *rest = spelling.split("_")
            camel = head + "".join(part.title() for part in rest)
            found += dict.fromkeys((spelling, camel, spelling.replace("_", "-")))
    return sorted(found, key=len, reverse=True)


_INLINE = re.compile(rf"""(\S?)["']?({"|".join(_spellings())})["']?[ \t]*:(?=[ \t]|$)(.*)""", re.MULTILINE)
_ONE_WORD = re.compile(r"\S*")
_ORPHAN = re.compile(
    r"""^[ \t]*(?:-[ \t]+["']?([^\s"']+)["']?[ \t,]*$"""
    r"""|["']?([\w*-]+)["']?[ \t]*:[ \t]*(?:allow|ask|deny|true|false)[ \t,]*$"""
    r"""|-[ \t]+(.*))""",
    re.MULTILINE,
)


class Piece(msgspec.Struct):
    """The lines from one key to the next."""

    key: str
    line: int
    text: str
    value_at: int
    """Where the value starts in the first line."""


def read_frontmatter(block: str, first_line: int, report: Report) -> Fields | Items | None:
    """The root of the frontmatter; None when it was refused, and the report says why."""
    if (plain := read_lines(block, first_line)) is not None:
        return plain
    try:
        try:
            root = read_yaml(block, first_line, is_known_text, max_values=MAX_VALUES)
            _check_whole(root, block, first_line)
            return _as_root(root, first_line, report)
        except Refused:
            raise
        except Broken as error:
            whole = error
        return _in_pieces(block, first_line, whole, report)
    except Broken as error:
        report.add(error.code, error.line, error.column, error.message)
        return None


def _as_root(root: Node | None, line: int, report: Report) -> Fields | Items | None:
    if root is None or (isinstance(root, Scalar) and root.value is None):
        return Fields({}, {}, line, 1)
    if isinstance(root, Scalar):
        report.add("bad-shape", root.line, root.column, "the frontmatter is a text; wanted a map of keys")
        return None
    return root


def _check_whole(root: Node | None, block: str, first_line: int) -> None:
    """Refuses YAML in which a line of power was read as a part of something else."""
    fields = root if isinstance(root, Fields) else Fields({}, {})
    known = {line for line, _ in fields.keys.values()}
    for match, line in _key_lines(block, first_line):
        if grants_power(match[2]) and line not in known:
            raise _hidden(match[2], line, 1, "is inside another value: a quote or bracket is left open above it")
    texts = [
        (k, n.line) for k, n in fields.fields.items() if isinstance(n, Scalar) and n.goes_on and not grants_power(k)
    ]
    if not texts:
        return
    lines, starts = block.split("\n"), [*sorted(known), first_line + block.count("\n") + 1]
    for key, line in texts:
        after = starts[bisect_right(starts, line)]
        _check_orphans("\n".join(lines[line - first_line + 1 : after - first_line]), line + 1, key)


def _key_lines(block: str, first_line: int) -> Iterator[tuple[re.Match[str], int]]:
    line, at = first_line, 0
    for match in _KEY_LINE.finditer(block):
        line += block.count("\n", at, match.start())
        at = match.start()
        yield match, line


def _in_pieces(block: str, first_line: int, whole: Broken, report: Report) -> Fields | None:
    pieces = _cut(block, first_line)
    if not 0 < len(pieces) <= _MOST_PIECES:
        raise whole
    root = Fields({}, {}, first_line, 1)
    present = {canonical_name(piece.key) for piece in pieces}
    before: Piece | None = None
    open_text: Piece | None = None
    texts: list[tuple[Scalar, Piece]] = []
    for piece in pieces:
        if piece.key in root.fields:
            first = root.keys[piece.key][0]
            raise Refused(f"'{piece.key}' was given before, in line {first}", piece.line, 1, "duplicate-key")
        node = _read_piece(piece)
        if isinstance(node, Broken):
            if not is_text(piece.key):
                raise _bare_star(piece) or node
            if open_text is not None and find(piece.key) is None:
                # a word before a colon, inside a text that is broken already
                _check_power(piece.text, piece.line, open_text.key, present)
                _check_orphans(piece.text, piece.line, open_text.key)
                open_text.text += piece.text
                continue
            _check_text(piece, before, present, node)
            message = f"the value of '{piece.key}' is not YAML; it was read as plain text"
            hint = "put it in quotes, or after '|' on lines of its own"
            report.add("rescued-text", piece.line, piece.value_at, message, hint)
            node = Scalar("", "", piece.line, piece.value_at)
            texts.append((node, piece))
            open_text = piece if canonical_name(piece.key) in _MANY_LINES else None
        elif find(piece.key) is not None:
            open_text = None
        root.fields[piece.key] = node
        root.keys[piece.key] = (piece.line, 1)
        before = piece
    if not texts:
        raise whole
    for node, piece in texts:
        node.value = node.text = _as_text(piece)
    return root


def _cut(block: str, first_line: int) -> list[Piece]:
    """Pieces that start with a key in the first column.

    A word that comes twice and is no key, or a capitalised one (`Examples:`), is a part of a text.
    """
    lines = list(_key_lines(block, first_line))
    counts = Counter(match[2] for match, _ in lines)
    capitals = bool(lines) and lines[0][0][2][0].isupper()
    starts = [
        (match, line)
        for match, line in lines
        if grants_power(match[2])
        or ((capitals or not match[2][0].isupper()) and (counts[match[2]] == 1 or find(match[2]) is not None))
    ]
    if not starts or any(_speaks(line) for line in block[: starts[0][0].start()].split("\n")):
        return []
    ends = [match.start() for match, _ in starts[1:]] + [len(block)]
    return [
        Piece(match[2], line, block[match.start() : end], match.end() - match.start() + 2)
        for (match, line), end in zip(starts, ends, strict=True)
    ]


def _speaks(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _bare_star(piece: Piece) -> Refused | None:
    if piece.text.rstrip().endswith(": *") and grants_power(piece.key):
        message = f"'{piece.key}' is an unquoted *, which could mean everything"
        return Refused(message, piece.line, piece.value_at, "everything")
    return None


def _read_piece(piece: Piece) -> Node | Broken:
    try:
        root = read_yaml(piece.text, piece.line, is_known_text)
    except Refused:
        raise
    except Broken as error:
        return error
    if isinstance(root, Fields) and list(root.fields) == [piece.key]:
        return root.fields[piece.key]
    return Broken(f"the value of '{piece.key}' does not end where the next key starts", piece.line, 1)


def _check_text(piece: Piece, before: Piece | None, present: set[str], error: Broken) -> None:
    """Raises when the text of a piece may hold power, or goes on where it should not."""
    _check_power(piece.text, piece.line, piece.key, present, start=len(piece.key) + 1)
    rest = piece.text.partition("\n")[2]
    more = [line for line in rest.split("\n") if _speaks(line)]
    if not more:
        return
    if canonical_name(piece.key) not in _MANY_LINES:
        raise error
    _check_orphans(rest, piece.line + 1, piece.key)
    if before is not None and grants_power(before.key) and "\n" in before.text.strip() and more[0][0] in " \t-":
        raise _hidden(before.key, before.line, 1, f"may go on below the broken text of '{piece.key}'; quote that text")


def _check_power(text: str, line: int, key: str, present: set[str], start: int = 0) -> None:
    found = [match for match in _INNER_KEY.finditer(text, start) if grants_power(match[1])]
    lost = [
        match for match in _INLINE.finditer(text, start) if canonical_name(match[2]) not in present and _is_lost(match)
    ]
    for match, group in [*((m, 1) for m in found), *((m, 2) for m in lost)]:
        at = match.start(group)
        reason = f"may be lost in the broken text of '{key}'; quote that text"
        raise _hidden(match[group], line + text.count("\n", 0, at), at - text.rfind("\n", 0, at), reason)


def _check_orphans(rest: str, line: int, key: str) -> None:
    for match in _ORPHAN.finditer(rest):
        name: str = match[1] or match[2] or match[3]
        if canonical(name) or (not match[2] and canonical_name(key) not in _MANY_LINES):
            reason = f"looks like a part of a list of tools or permissions, and stands in the text of '{key}'"
            raise _hidden(name, line + rest.count("\n", 0, match.start()), 1, reason)


def _is_lost(match: re.Match[str]) -> bool:
    """Whether a key inside a line may once have started one, and is not just a word before a colon."""
    before, word, value = match[1], match[2], match[3].strip()
    if not word.isalpha() or not word.islower() or before in tuple(".\"')>]}!?,;"):
        return True
    if word == "tools":
        return not value or any(canonical(part.strip(" \"'[]")) for part in value.split(","))
    return _ONE_WORD.fullmatch(value) is not None


def _hidden(what: str, line: int, column: int, reason: str) -> Refused:
    return Refused(f"'{what}' {reason}", line, column, "hidden-power")


def _as_text(piece: Piece) -> str:
    first, _, rest = piece.text.partition("\n")
    value = first[piece.value_at - 2 :].strip()
    lines = [line.strip() for line in rest.split("\n")]
    if _BLOCK_MARK.fullmatch(value):
        value = ""
    text = "\n".join([value, *lines]).strip()
    if text[:1] in ('"', "'"):
        quote = text[0]
        text = text[1:].removesuffix(quote) if text.endswith(quote) else text[1:]
    return text
