"""What is wrong with a file, told so that an editor can point at it."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Severity = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing found in one place. `line` and `column` count from 1."""

    code: str
    severity: Severity
    message: str
    file: str = ""
    line: int = 1
    column: int = 1
    hint: str | None = None

    def __str__(self) -> str:
        tail = f"; {self.hint}" if self.hint else ""
        return f"{self.file}:{self.line}:{self.column}: {self.code} {self.message}{tail}"


def has_errors(problems: Iterable[Problem]) -> bool:
    return any(p.severity == "error" for p in problems)
