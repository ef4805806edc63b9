"""A shell script as a flat list of what it would do: commands, redirections, scopes, and what is unclear.

Finds every simple command wherever it hides, in the order bash would meet it.
What the commands mean is `retinue.policy.shell.judge`'s subject. The grammar is
tolerant and in places wrong, so whatever it leaves unexplained (an error, a
node of an unknown kind, text that no node covers) becomes a `Doubt`.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from retinue.policy.shell.words import Word, names, plain

LONGEST = 8192
"""Bytes of code that are parsed; the parser's recovery takes quadratic time on hostile text."""
DEEPEST = 60


ScopeKind = Literal["sub", "and", "branch", "loop", "later"]


@dataclass(frozen=True, slots=True)
class Redirect:
    """`read`, `write` and `both` name a file; `text` is a here-document's or here-string's content."""

    kind: Literal["read", "write", "both", "text"]
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    words: tuple[Word, ...] = ()
    assigns: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    fed_by: tuple[Word, ...] = ()
    """The command before it in a pipeline."""
    fed_text: tuple[Word, ...] = ()
    """The here-document of the command before it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where the working directory goes another way.

    `sub`: changes end with it. `and`: runs only after success. `branch`: may not
    run. `loop`: may run again. `later`: runs when it is called.
    """

    kind: ScopeKind
    opens: bool
    name: str = ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that is not understood."""

    reason: str
    code: str = ""
    """Text that may run as a script of its own."""
    scan: str = ""
    """Text in which no structure can be trusted: every word may start a command."""


Part = Simple | Scope | Doubt

_PLAIN = re.compile(r"[\w./+:,@%-]+(?:[ \t]+(?:[\w./+:,@%][\w./+:,@%-]*|-[\w./+:,@%=-]*))*[ \t]*", re.ASCII)
RESERVED = names("! { } if then else elif fi for while until do done case esac in function select time coproc [[ ]]")
_HERE = re.compile(r"<<-?[ \t]*(['\"])(\w+)\1[^\n]*\n(.*?)^\t*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_GLUED = re.compile(r"[^\s\\]\\\n|(?:\\\\)+\\\n")


@lru_cache(maxsize=512)
def parse(source: str) -> tuple[Part, ...]:
    """Return what `source` would do, as far as it can be known without running it."""
    if _PLAIN.fullmatch(source):
        words = source.split()
        if words[0] not in RESERVED:
            return (Simple(words=tuple(plain(word) for word in words)),)
    if trouble := _malformed(source):
        return (Doubt(trouble, scan=source),)
    bodies: list[str] = []
    text = source
    if len(source) > LONGEST:
        text = _HERE.sub(lambda m: _cut(m, bodies), source)
    if len(text) > LONGEST or _depth(text) > DEEPEST:
        reason = "it is too long or too deeply nested to be judged; write it to a file and run that"
        return (Doubt(reason, scan=source),)
    from retinue.policy.shell.walk import walk

    parts = walk(text, bodies)
    if _GLUED.search(text):
        parts = (*parts, Doubt("a line continuation inside a word"), *walk(text.replace("\\\n", ""), bodies))
    return parts


def _cut(match: re.Match[str], bodies: list[str]) -> str:
    bodies.append(match[3])
    start, end = match.span(3)
    whole = match[0]
    return whole[: start - match.start()] + whole[end - match.start() :]


def _malformed(source: str) -> str:
    for char in source:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if char.isspace() or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs"):
            return f"it holds the invisible character U+{ord(char):04X}"
    return ""


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth = max(depth - 1, 0)
    return deepest
