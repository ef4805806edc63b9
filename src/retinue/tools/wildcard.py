"""Wildcards of file names, as in .gitignore: `*` stays within a folder, `**` does not, `{a,b}` is either."""

import re
from functools import lru_cache

_TOKEN = re.compile(r"(?:^|(?<=/))\*\*(?:/|$)|\*+|\?|\[!?\]?[^\]/]*\]|\\.|[{},]|[^*?\[\\{},]+|.", re.DOTALL)
_PLAIN = {"?": "[^/]", "{": "(?:", "}": ")", "**/": "(?:.*/)?", "**": ".+"}


@lru_cache(maxsize=1024)
def wildcard(pattern: str) -> re.Pattern[str]:
    """A test on a relative path. Without a slash the pattern is about the last name, at any depth."""
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    body = pattern.removeprefix("./").removeprefix("/")
    braces = body.count("{") == body.count("}") > 0
    try:
        return re.compile(anywhere + "".join(_tokens(body, braces=braces)), re.DOTALL)
    except re.error:
        return re.compile(anywhere + "".join(_tokens(body, braces=False)), re.DOTALL)


def _tokens(pattern: str, *, braces: bool) -> list[str]:
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.findall(pattern):
        if token in "{}" and not braces:
            parts.append(re.escape(token))
        elif token == "," and braces and depth:
            parts.append("|")
        elif token in _PLAIN:
            depth += (token == "{") - (token == "}")
            parts.append(_PLAIN[token])
        elif set(token) == {"*"}:
            parts.append("[^/]*")
        elif token.startswith("[") and len(token) > 2:
            inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            parts.append(re.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token))
    return parts
