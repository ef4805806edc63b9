"""The terminal of a command that follows a thread: text as it comes, lines of activity, one line of status.

The status line stands below the text; both are written at most ten times a second,
and the line is erased before anything else is. In pipes there is none: activity goes to
stderr, and stdout holds the answer alone. What models and tools say is not
trusted with the terminal.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Literal, Protocol
from unicodedata import east_asian_width

from retinue.cli.output import plain
from retinue.runtime.state import add_cost
from retinue.schema.events.steps import AuxiliaryUsed, ContextCompacted, ModelAnswered
from retinue.schema.events.union import AnyEvent

Style = Literal["", "dim", "bold", "red", "green", "yellow"]
_CODES: dict[Style, str] = {"": "", "dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33"}
_EVERY = 0.1
"""Seconds between two drawings of the status line."""


class Output(Protocol):
    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


class Screen:
    """
    Args:
        streams: False keeps stdout for one value, also on a terminal.
        draws: Whether there may be a status line.
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

    def status(self, text: str) -> None:
        now = self._now()
        if now - self._drawn_at < _EVERY:
            return
        self._drawn_at = now
        self._flush()
        if not self._draws or self._column >= self.width:
            return
        self._drawn = True
        shown = self._styled(plain(text)[: self.width - 1], "dim")
        if self._column:
            self._err.write(f"\n\r\x1b[K{shown}\x1b[A\x1b[{self._column + 1}G")
        else:
            self._err.write(f"\r\x1b[K{shown}\r")
        self._err.flush()

    def close(self) -> None:
        self.end_line()
        self._erase()

    @property
    def width(self) -> int:
        try:
            return os.get_terminal_size((self._out if self.live else self._err).fileno()).columns or 80
        except (OSError, ValueError):
            return 80

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


class Meter:
    """What a tree has used, counted from its events."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._start = now, now()
        self.steps = self.tokens = 0
        self.cost: int | None = 0

    def take(self, event: AnyEvent) -> None:
        if isinstance(event, ModelAnswered | ContextCompacted | AuxiliaryUsed):
            self.steps += isinstance(event, ModelAnswered)
            self.tokens += event.usage.total
            self.cost = add_cost(self.cost, event.cost)

    def text(self, doing: str = "") -> str:
        figures = [duration(self._now() - self._start), f"{self.steps} step{'s' * (self.steps != 1)}"]
        figures += [f"{amount(self.tokens)} tokens", money(self.cost)]
        return " · ".join([*figures, *([doing] if doing else [])])


def money(nano_dollars: int | None) -> str:
    if nano_dollars is None:
        return "$?"
    dollars = nano_dollars / 1e9
    return f"${dollars:.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def amount(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def safe(text: str) -> str:
    """`text` with its line breaks, and nothing else that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else "    " if c == "\t" else "" if c == "\r" else "?" for c in text
    )


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if east_asian_width(c) in "WF" else 1 for c in text)
