"""A thread's status and the one table of how it may change."""

from typing import Literal

ThreadStatus = Literal["idle", "running", "waiting", "interrupted", "completed", "failed", "terminated"]
WaitingFor = Literal["question", "child", "variables", "retry", "slot"]
People = Literal["wait", "none"]
SideName = Literal["a", "b"]

TRANSITIONS: dict[ThreadStatus, frozenset[ThreadStatus]] = {
    "idle": frozenset({"running", "terminated"}),
    "running": frozenset({"waiting", "interrupted", "completed", "failed", "terminated", "idle"}),
    "waiting": frozenset({"running", "interrupted", "completed", "failed", "terminated"}),
    "interrupted": frozenset({"running", "completed", "failed", "terminated"}),
    "completed": frozenset({"running", "terminated"}),
    "failed": frozenset({"running", "terminated"}),
    "terminated": frozenset(),
}
"""completed and failed threads run again when a message comes; a terminated one never does."""

S0_STATES: dict[str, ThreadStatus] = {
    "SUBMITTED": "idle",
    "WORKING": "running",
    "INPUT_REQUIRED": "waiting",
    "BLOCKED_ON_INPUT": "waiting",
    "BLOCKED_ON_DEPENDENCY": "waiting",
    "COMPLETED": "completed",
    "CANCELED": "interrupted",
    "FAILED": "failed",
    "REJECTED": "failed",
}


def may_become(now: ThreadStatus, then: ThreadStatus) -> bool:
    return now == then or then in TRANSITIONS[now]
