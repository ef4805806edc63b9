"""The terminal of a command that follows a thread: text as it comes, lines of activity, and a status below.

The status is a few lines; it and the text are written at most ten times a second,
and it is erased before anything else is. In pipes there is none: activity goes to
stderr, and stdout holds the answer alone. What models and tools say is not
trusted with the terminal.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol
from unicodedata import east_asian_width

from retinue.cli.output import plain, safe, terminal_size

Style = Literal["", "dim", "bold", "red", "green", "yellow"]
_CODES: dict[Style, str] = {"": "", "dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33"}
_EVERY = 0.1
"""Seconds between two drawings of the status."""


class Output(Protocol):
    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


class Screen:
    """
    Args:
        streams: False keeps stdout for one value, also on a terminal.
        draws: Whether there may be a status.
    """

    def __init__(
        self,
        out: Output | None = None,
        err: Output | None = None,
        *,
        streams: bool = True,
        draws: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self.live = streams and self._out.isatty()
        """Text streams here; otherwise only the answer is printed."""
        self._lines = self._out if self.live else self._err
        self._draws = draws and self._err.isatty()
        self._colours = self._lines.isatty() and not os.environ.get("NO_COLOR")
        self._now, self._drawn_at = now, 0.0
        self._pending: list[tuple[str, Style]] = []
        self._drawn = False
        self._column = 0

    def stream(self, text: str, style: Style = "") -> None:
        """Text of the model as it comes; it may end anywhere in a line."""
        if self.live and text:
            self._pending.append((safe(text), style))
            if not self._drawn:
                self._flush()

    def line(self, text: str = "", style: Style = "") -> None:
        """A line of its own, after whatever line was under way."""
        self.end_line()
        self._erase()
        self._lines.write(self._styled(safe(text), style) + "\n")
        self._lines.flush()

    def end_line(self) -> None:
        self._flush()
        if self._column:
            self._erase()
            self._out.write("\n")
            self._out.flush()
            self._column = 0

    def answer(self, text: str) -> None:
        """What the command is for, on stdout."""
        self.end_line()
        self._erase()
        self._out.write((safe(text) if self.live else text).rstrip("\n") + "\n")
        self._out.flush()

    def status(self, lines: Sequence[str]) -> None:
        now = self._now()
        if now - self._drawn_at < _EVERY and (self._drawn or not self._draws):
            return
        self._drawn_at = now
        self._flush()
        if not self._draws or self._column >= self.width:
            return
        self._drawn = True
        body = "\n".join(f"\r\x1b[K{self._styled(_cut(plain(line), self.width - 1), 'dim')}" for line in lines)
        rows = len(lines) - 1 + bool(self._column)
        back = f"\x1b[{rows}A" * bool(rows) + (f"\x1b[{self._column + 1}G" if self._column else "\r")
        start = "\n" if self._column else ""
        self._err.write(f"{start}{body}\x1b[J{back}")
        self._err.flush()

    def close(self) -> None:
        self.end_line()
        self._erase()

    @property
    def width(self) -> int:
        return self.size[0]

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return terminal_size((self._out if self.live else self._err).fileno)

    def _flush(self) -> None:
        if not self._pending:
            return
        self._erase()
        self._out.write("".join(self._styled(text, style) for text, style in self._pending))
        self._out.flush()
        head, newline, tail = "".join(text for text, _ in self._pending).rpartition("\n")
        at = _columns(tail) if newline else self._column + _columns(head + tail)
        self._column = at and (at - 1) % self.width + 1
        self._pending.clear()

    def _erase(self) -> None:
        if self._drawn:
            self._err.write("\x1b[J")
            self._err.flush()
            self._drawn = False

    def _styled(self, text: str, style: Style) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and self._colours and text else text


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _cut(text: str, columns: int) -> str:
    if _columns(text) <= columns:
        return text
    while _columns(text) >= columns:
        text = text[: columns - 1] if len(text) >= columns else text[:-1]
    return text + "…"
