"""A real terminal for a program: what it shows, what is typed, how it ends."""

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>78]|\r")
_WHERE = b"\x1b[6n"
"""A program asks where the cursor is; terminals answer."""
_PATIENCE = 60.0
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal the one whose Ctrl-C reaches the program."""


class Terminal:
    """Runs a command with a terminal as its three standard files."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, columns: int = 100
    ) -> None:
        self._own, theirs = os.openpty()
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""
        """Everything it wrote, escape sequences included."""
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._own)

    @property
    def text(self) -> str:
        """Everything it wrote, as plain text."""
        return _ESCAPES.sub("", self.raw)

    def expect(self, pattern: str) -> re.Match[str]:
        """Read until `pattern` is in what was written since the last match."""
        deadline = time.monotonic() + _PATIENCE
        while not (found := re.compile(pattern).search(self.text, self._at)):
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} did not come; the terminal shows:\n{self.text[self._at :]}")
        self._at = found.end()
        return found

    def until(self, happened: Callable[[], bool]) -> None:
        """Read what it shows until something else has happened."""
        deadline = time.monotonic() + _PATIENCE
        while not happened():
            self._read(min(deadline, time.monotonic() + 0.1))
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not happen; the terminal shows:\n{self.text[self._at :]}")

    def type(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def ends(self, keys: str = "") -> int:
        """Read to the end and return the exit code.

        Args:
            keys: Typed until then, again and again: a key is lost while a program changes the terminal's mode.
        """
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if keys and self.process.poll() is None:
                self.type(keys)
            if not self._read(min(deadline, time.monotonic() + 1.0)) and self.process.poll() is not None:
                break
        return self.process.wait(max(deadline - time.monotonic(), 1.0))

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            return False
        try:
            data = os.read(self._own, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        if _WHERE in data:
            self.type("\x1b[1;1R" * data.count(_WHERE))
        self.raw += data.decode(errors="replace")
        return bool(data)
