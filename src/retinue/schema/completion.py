"""How a run ended, the same value on every surface; and what it used."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Status = Literal["SUCCESS", "PARTIAL", "FAILED"]
Reason = Literal[
    "goal",
    "max_steps",
    "timeout",
    "no_completion",
    "max_session_turns",
    "failed_binding",
    "budget",
    "loop",
    "denied",
    "aborted",
    "terminated",
    "error",
]


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens. `input` counts everything sent, cached or not; `output` includes thinking."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    thinking: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            thinking=self.thinking + other.thinking,
        )

    @property
    def total(self) -> int:
        return self.input + self.output


class CallSummary(msgspec.Struct, frozen=True, kw_only=True):
    tool: str
    status: str
    duration: float


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    result: object
    """Text, or the value that `output.schema` describes."""
    status: Status
    reason: Reason
    confidence: float | None = None
    requires_followup: bool = False
    metadata: Mapping[str, object] = {}
    attachments: tuple[str, ...] = ()
    error: str | None = None
    recovered_from: Reason | None = None
    steps: int = 0
    calls: tuple[CallSummary, ...] = ()
    usage: Usage = Usage()
    cost: int | None = None
    """Nano-dollars, of the run and its children; None when a price is unknown."""
    duration: float = 0.0
    agent: str = ""
    definition_hash: str = ""
    commit: str | None = None
    thread: str = ""
