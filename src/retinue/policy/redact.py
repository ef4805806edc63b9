"""Takes named secrets out of text, also where they were encoded: base64, hex, URLs, JSON."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Shorter values are left alone: they would be found everywhere."""
_SHORTEST_ENCODED = 6
_PIECE = 16


class Redactor:
    """Redacts what it is given; build it once for a set of secrets.

    Args:
        secrets: Name to value.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names = {form: name for name, value in secrets.items() for form in _forms(value)}
        self._longest = max(map(len, self._names), default=0)
        self._first = {form[0] for form in self._names}
        pattern = "|".join(re.escape(form) for form in sorted(self._names, key=len, reverse=True))
        self._pattern = re.compile(pattern) if pattern else None

    def __call__(self, text: str) -> str:
        """Return `text` with every secret as `[secret NAME]`."""
        if self._pattern is None or not text:
            return text
        return self._pattern.sub(lambda match: f"[secret {self._names[match[0]]}]", text)

    def stream(self) -> tuple[Callable[[str], str], Callable[[], str]]:
        """Return `feed` and `flush` for text that comes in pieces.

        `feed` holds back only an end that could be the start of a secret.
        """
        held = ""

        def feed(piece: str) -> str:
            nonlocal held
            if self._pattern is None:
                return piece
            text = self(held + piece)
            tail = text[-self._longest :]
            starts = (len(tail) - i for i, char in enumerate(tail) if char in self._first and self._starts(tail[i:]))
            keep = next(starts, 0)
            held = text[len(text) - keep :]
            return text[: len(text) - keep]

        def flush() -> str:
            nonlocal held
            rest, held = held, ""
            return rest

        return feed, flush

    def _starts(self, end: str) -> bool:
        return any(form.startswith(end) for form in self._names)


def _forms(value: str) -> Iterator[str]:
    if len(value) < SHORTEST:
        return
    yield value
    yield from (line for line in value.splitlines() if len(line) >= 16)
    if len(value) < _SHORTEST_ENCODED:
        return
    data = value.encode()
    for encoded in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield encoded
        yield encoded.replace("/", r"\/")
    for encoded in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda m: m[0].lower(), encoded)
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        # The characters at both ends mix with neighbouring bytes; what is left is the same in any context.
        text = base64.b64encode(b"\0" * shift + data).decode()
        start = -(-shift * 8 // 6)
        whole = (shift + len(data)) * 8 // 6
        inner = text[start:whole]
        # Programs break long lines, somewhere: pieces are found on both sides of a break.
        pieces = (
            [inner[i : i + _PIECE] for i in range(0, len(inner) - _PIECE + 1, _PIECE)] if 60 < len(inner) < 1000 else []
        )
        for piece in (inner, *pieces):
            yield piece
            yield piece.replace("+", "-").replace("/", "_")
