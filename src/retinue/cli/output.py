"""How commands print: tables, JSON, problems, and a progress bar.

What files and repositories say is not trusted with the terminal: characters that
are not printable are shown as `?`.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeVar

import click
import msgspec

from retinue.schema.errors import RetinueError, UsageError
from retinue.schema.problem import Problem

F = TypeVar("F", bound=Callable[..., object])


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def seconds_of(duration: str) -> float:
    """What `30m`, `12h` or `7d` after `--expires` mean."""
    number, unit = duration[:-1], duration[-1:]
    if unit not in _UNITS or not number.isdigit() or not int(number):
        raise UsageError(f"--expires {duration!r} is no duration", hint="write 30m, 12h or 7d")
    return float(int(number) * _UNITS[unit])


def plain(text: str) -> str:
    """`text` on one line, without anything a terminal would act on."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def safe(text: str) -> str:
    """`text` with its line breaks, and nothing else that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else "    " if c == "\t" else "" if c == "\r" else "?" for c in text
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns; on a terminal the last one is cut to the width."""
    cells = [list(headers), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers) - 1)]
    limit = terminal_size(sys.stdout.fileno)[0] if sys.stdout.isatty() else None
    for row in cells:
        line = "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=False)] + row[-1:]).rstrip()
        click.echo(line if limit is None or len(line) <= limit else line[: limit - 1] + "…")


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_json_line(value: object) -> None:
    click.echo(msgspec.json.encode(value))


def problem_json(problem: Problem) -> dict[str, object]:
    return {
        "code": problem.code,
        "severity": problem.severity,
        "line": problem.line,
        "message": problem.message,
        "hint": problem.hint,
    }


def error_json(error: RetinueError) -> dict[str, object]:
    return {"error": error.code, "message": error.message, "hint": error.hint}


def print_problems(problems: Iterable[Problem]) -> None:
    for problem in problems:
        click.echo(plain(str(problem)))


def when(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def note(text: str) -> None:
    """Say something beside the result: on stderr, so that pipes see only the result."""
    click.echo(plain(text), err=True)


def count(number: int, word: str, many: str | None = None) -> str:
    return f"{number} {word if number == 1 else many or word + 's'}"


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


class Progress:
    """A bar on stderr that appears when the work takes longer than a second; silent in pipes."""

    def __init__(self, total: int, what: str, *, after: float = 1.0) -> None:
        self._total, self._what, self._after = max(total, 1), what, after
        self._done, self._drawn = 0, 0.0
        self._start = time.monotonic()
        self._on = sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self, number: int = 1, *, what: str | None = None) -> None:
        """Count work as done; with 0, only redraw."""
        self.set(self._done + number, what=what)

    def part(self, what: str, part: float) -> None:
        """The part of the whole that is done, 0 to 1."""
        self.set(round(part * self._total), what=what)

    def set(self, done: int, *, what: str | None = None) -> None:
        self._done = done
        self._what = what or self._what
        now = time.monotonic()
        if not self._on or now - self._start < self._after or now - self._drawn < 0.1:
            return
        self._drawn = now
        filled = round(20 * self._done / self._total)
        bar = "#" * filled + "-" * (20 - filled)
        line = f"[{bar}] {self._done}/{self._total} {plain(self._what)} {now - self._start:.0f}s"
        sys.stderr.write("\r\x1b[K" + line[: terminal_size(sys.stderr.fileno)[0] - 1])
        sys.stderr.flush()


def terminal_size(fileno: Callable[[], int]) -> tuple[int, int]:
    """Columns and rows of the terminal that a file is, or what is usual."""
    try:
        columns, rows = os.get_terminal_size(fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, rows or 24  # a terminal may not know its size
