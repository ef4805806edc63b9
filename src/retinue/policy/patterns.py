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
def overlap(a: str, b: str) -> bool:
    """Return whether some text is covered by both patterns."""
    reach = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(a) and j == len(b):
            return True
        x, y = a[i : i + 1], b[j : j + 1]
        steps: list[tuple[int, int]] = []
        if x == "*":
            steps += [(i + 1, j)] + ([(i, j + 1)] if y else [])
        if y == "*":
            steps += [(i, j + 1)] + ([(i + 1, j)] if x else [])
        if x and y and "*" not in (x, y) and (x == y or "?" in (x, y)):
            steps.append((i + 1, j + 1))
        todo += [step for step in steps if step not in reach]
        reach.update(steps)
    return False
