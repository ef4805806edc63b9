"""Branded ids, so that one kind is never passed for another."""

from hashlib import sha1
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
    # uuid5 by hand: every call of every step takes one, and the library's way is a dozen calls.
    digest = sha1(bytes.fromhex(thread.replace("-", "")) + f"{seq}:{index}".encode(), usedforsecurity=False).digest()
    value = digest[:6] + bytes((digest[6] & 0x0F | 0x50, digest[7], digest[8] & 0x3F | 0x80)) + digest[9:16]
    text = value.hex()
    return CallId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def child_id(call: CallId) -> ThreadId:
    """The thread that `call` starts: derived, so recovery finds it and never starts it twice."""
    return ThreadId(str(uuid5(UUID(call), "child")))


def question_id(call: CallId, purpose: str) -> QuestionId:
    return QuestionId(str(uuid5(UUID(call), purpose)))
