"""Branded ids, so that one kind is never passed for another."""

from functools import lru_cache
from typing import NewType
from uuid import UUID, uuid5

AgentId = NewType("AgentId", str)
"""A path of segments, `sales/assistant`."""

ThreadId = NewType("ThreadId", str)
"""A UUID in its canonical text form; a child's is its reference."""

CallId = NewType("CallId", str)
QuestionId = NewType("QuestionId", str)
MessageId = NewType("MessageId", str)
Tenant = NewType("Tenant", str)

Seq = int
"""The position of an event in its thread's log, from 1."""

DEFAULT_TENANT = Tenant("default")


def call_id(thread: ThreadId, seq: Seq, index: int) -> CallId:
    """Our id of a call: it depends on where the call stands in the log, never on the provider's id."""
    return CallId(str(uuid5(_uuid(thread), f"{seq}:{index}")))


@lru_cache(maxsize=4096)
def _uuid(thread: ThreadId) -> UUID:
    return UUID(thread)


def child_id(call: CallId) -> ThreadId:
    """The thread that `call` starts: derived, so recovery finds it and never starts it twice."""
    return ThreadId(str(uuid5(UUID(call), "child")))


def question_id(call: CallId, purpose: str) -> QuestionId:
    return QuestionId(str(uuid5(UUID(call), purpose)))
