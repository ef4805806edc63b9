"""One word of a command: what is known of it before anything runs.

Decodes quotes, escapes and ANSI-C strings the way bash does. Expansions stay as
they are written and make the word unknown, unless the script itself gives the
variable one plain value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


def names(text: str) -> frozenset[str]:
    """Return the set that is written as one line."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """As the program will get it; unknown parts as they are written."""
    known: bool = True
    lead: str = ""
    """What an unknown word surely starts with."""
    splits: bool = False
    """May become several words, or none."""
    glob: bool = False
    bare: bool = True
    """Nothing in it is quoted: it may be a reserved word."""
    tilde: bool = False
    """Starts with a tilde that bash expands."""


OPENING = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({\[])")
"""What starts a substitution in text that is not quoted singly."""
_PLAIN = re.compile(r"[\w./+:,@%=-]+", re.ASCII)
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_GLOB = re.compile(r"[*?\[]")
_ANSI = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_STRING = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_NAMES = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_PLACES = {"HOME": "~", "PWD": "."}
_HERE = re.compile(r"\$\(pwd\)|`pwd`")
_REVISION = re.compile(
    r"\$\(git (?:(?:merge-base|rev-parse|describe)(?: --(?:short|tags|always|abbrev-ref))*(?: [\w@][\w./~^@-]*){0,2}"
    r"|branch --show-current)\)"
)
"""Prints one word that is no option; of `rev-parse` it may be any name that it is given."""

# A piece is text and its shape, in which bare characters stand for themselves. The
# marks can't be in a source: control characters are refused before it is parsed.
_Piece = tuple[str, str]
_QUOTED, _SPLIT, _WHOLE = "\x01", "\x02", "\x03"


def plain(text: str) -> Word:
    """Return a word that is written without quotes or expansions."""
    return Word(text, lead=text, tilde=text.startswith("~"))


def decode(nodes: Sequence["Node"], source: bytes, values: Mapping[str, str]) -> Word:
    """Return the word that adjacent `nodes` make; `values` are variables with one plain value."""
    if len(nodes) == 1 and _PLAIN.fullmatch(text := _text(nodes[0])):
        return plain(text)
    pieces = [piece for node in _untranslated(nodes) for piece in _pieces(node, source, values, quoted=False)]
    text = "".join(piece[0] for piece in pieces)
    shape = "".join(piece[1] for piece in pieces)
    braces = bool(_BRACES.search(shape))
    known = _SPLIT not in shape and _WHOLE not in shape and not braces
    lead = text
    if not known:
        known_pieces = 0 if braces else next(i for i, p in enumerate(pieces) if p[1] in (_SPLIT, _WHOLE))
        lead = "".join(piece[0] for piece in pieces[:known_pieces])
    return Word(
        text,
        known=known,
        lead=lead,
        splits=braces or _SPLIT in shape,
        glob=bool(_GLOB.search(shape)),
        bare=known and _QUOTED not in shape,
        tilde=next((piece[1].startswith("~") for piece in pieces if piece[0]), False),
    )


def decode_ansi(text: str) -> str:
    """Return `text` with its `$'…'` strings decoded and unquoted."""
    return _ANSI_STRING.sub(lambda m: _ANSI.sub(_ansi, m[1]), text)


def here_text(body: str, *, expands: bool) -> Word:
    """Return the text of a here-document as a word."""
    if not expands:
        return Word(body, lead=body, bare=False)
    if OPENING.search(body) or re.search(r"(?<!\\)\$\w", body):
        return Word(body, known=False, bare=False)
    text = re.sub(r"\\([$`\\]|\n)", lambda m: m[1].strip("\n"), body)
    return Word(text, lead=text, bare=False)


def _pieces(node: "Node", source: bytes, values: Mapping[str, str], *, quoted: bool) -> Iterator[_Piece]:
    kind = node.type
    if kind == "raw_string":
        yield _quoted(_text(node)[1:-1])
    elif kind == "ansi_c_string":
        yield _quoted(decode_ansi(_text(node)))
    elif kind in ("string", "translated_string"):
        yield from _string(node, source, values)
    elif kind in ("concatenation", "command_name"):
        for child in _untranslated(node.children):
            yield from _pieces(child, source, values, quoted=quoted)
    elif kind == "process_substitution":
        yield _quoted("/dev/fd/63")
    elif kind == "command_substitution" and _HERE.fullmatch(_text(node)):
        yield ".", "."
    elif kind == "command_substitution" and _REVISION.fullmatch(_text(node)):
        yield "@", "@"
        yield _text(node), _WHOLE
    elif kind in ("simple_expansion", "expansion"):
        yield _expansion(node, values, quoted=quoted)
    elif node.child_count and kind not in ("word", "number"):
        yield _text(node), _WHOLE if quoted else _SPLIT
    else:
        yield _bare(_text(node))


def _untranslated(nodes: Sequence["Node"]) -> list["Node"]:
    """Leave out the `$` of `$"…"`: a translation is the text itself unless one is installed."""
    following = (*nodes[1:], None)
    return [
        n for n, after in zip(nodes, following, strict=True) if not (n.type == "$" and after and after.type == "string")
    ]


def _string(node: "Node", source: bytes, values: Mapping[str, str]) -> Iterator[_Piece]:
    """Everything between the expansions is literal: the parser leaves some blanks out of its nodes."""
    inner = node if node.type == "string" else node.children[-1]
    at = inner.start_byte + 1
    yield _quoted("")
    for child in inner.children:
        if child.is_named and child.type != "string_content":
            yield _quoted(_unescape(source[at : child.start_byte].decode()))
            yield from _pieces(child, source, values, quoted=True)
            at = child.end_byte
    yield _quoted(_unescape(source[at : inner.end_byte - 1].decode()))


def _expansion(node: "Node", values: Mapping[str, str], *, quoted: bool) -> _Piece:
    text = _text(node)
    name = text.strip("${}")
    value = values.get(name) or _PLACES.get(name)
    if value is None or text not in (f"${name}", f"${{{name}}}"):
        return text, _WHOLE if quoted else _SPLIT
    return value, value


def _bare(text: str) -> _Piece:
    if "\\" not in text:
        return text, text
    out: list[str] = []
    shape: list[str] = []
    rest = iter(text)
    for char in rest:
        if char != "\\":
            out.append(char)
            shape.append(char)
        elif (char := next(rest, "\\")) != "\n":
            out.append(char)
            shape.append(_QUOTED)
    return "".join(out), "".join(shape)


def _quoted(text: str) -> _Piece:
    return text, _QUOTED * max(len(text), 1)


def _unescape(text: str) -> str:
    return re.sub(r'\\([$`"\\\n])', lambda m: "" if m[1] == "\n" else m[1], text)


def _ansi(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    if code[0] == "c" and len(code) > 1:
        return chr(ord(code[1]) & 0x1F)
    return _ANSI_NAMES.get(code, code if code in "\\'\"?" else "\\" + code)


def _text(node: "Node") -> str:
    return (node.text or b"").decode()
