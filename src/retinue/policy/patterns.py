"""Wildcard patterns of rules, filters and grants.

`*` is any text and crosses `/`, `?` is one character, a pattern covers the
whole resource, and a trailing ` *` also covers a command without arguments.
`~` and `$HOME` at a pattern's start mean the home folder that is passed in.
"""

import re
from collections.abc import Callable
from functools import lru_cache

Match = Callable[[str], object]


@lru_cache(maxsize=4096)
def matcher(pattern: str, home: str = "") -> Match:
    """Return a test whose answer is truthy for the resources that `pattern` covers."""
    text = expand_home(pattern, home)
    if text in ("*", "**"):
        return lambda _: True
    if "*" not in text and "?" not in text:
        return text.__eq__
    tail = ""
    if text.endswith(" *"):
        text, tail = text[:-2], r"(?: .*)?"
    parts = re.split(r"(\*+|\?)", text)
    body = "".join(".*" if p.startswith("*") else "." if p == "?" else re.escape(p) for p in parts)
    return re.compile(body + tail, re.DOTALL).fullmatch


def matches(pattern: str, resource: str, home: str = "") -> bool:
    return bool(matcher(pattern, home)(resource))


def expand_home(pattern: str, home: str) -> str:
    """Replace a leading `~` or `$HOME`; without a home the pattern stays as it is written."""
    for spelling in ("~", "$HOME", "${HOME}"):
        rest = pattern[len(spelling) :]
        if home and pattern.startswith(spelling) and rest[:1] in ("", "/"):
            return home.rstrip("/") + rest
    return pattern


@lru_cache(maxsize=1024)
def overlap(pattern: str, glob: str) -> bool:
    """Return whether `pattern` covers some name that the shell's `glob` may expand to.

    In a glob `*` stops at `/` and does not match a leading dot; a bracket is taken for any character.
    """
    glob = re.sub(r"\[[^]]+\]", "?", glob)
    seen = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(pattern) and j == len(glob):
            return True
        x, y = pattern[i : i + 1], glob[j : j + 1]
        kept = x == "/" or (x == "." and glob[j - 1 : j] in ("", "/"))
        steps: list[tuple[int, int]] = []
        if x == "*":
            steps += [(i + 1, j), (i, j + 1)] if y else [(i + 1, j)]
        if y == "*":
            steps += [(i, j + 1), (i + 1, j)] if x and not kept else [(i, j + 1)]
        if x and y and "*" not in (x, y) and (x in (y, "?") or (y == "?" and not kept)):
            steps.append((i + 1, j + 1))
        todo += [step for step in steps if step not in seen]
        seen.update(steps)
    return False
