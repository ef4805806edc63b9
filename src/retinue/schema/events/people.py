"""Events of people: questions asked, answered, expired; grants and taint."""

from collections.abc import Mapping
from typing import Literal

from retinue.schema.events.base import Event
from retinue.schema.ids import CallId, QuestionId
from retinue.schema.permission import Decision

QuestionKind = Literal["text", "choice", "file", "approval", "permission", "loop", "variables"]
GrantScope = Literal["once", "thread", "pattern", "always", "deny"]


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question.asked"):
    """Something a person must answer. The thread parks until it is settled."""

    id: QuestionId
    call: CallId
    kind: QuestionKind
    prompt: str
    choices: tuple[str, ...] = ()
    required: bool = True
    expires: float | None = None
    tool: str | None = None
    arguments: str | None = None
    """The exact call, for permission questions; an approval binds to these bytes."""
    preview: str | None = None
    """A diff or another picture of the effect."""
    decision: Decision | None = None
    resources: tuple[str, ...] = ()
    """What the call was seen to be about: the files it leads to, links followed, else its command, URL or query."""
    digest: str = ""
    """Of the call, the definition and those files: what an approval binds to."""


class QuestionSettled(Event, frozen=True, kw_only=True, tag="question.settled"):
    id: QuestionId
    call: CallId
    status: Literal["answered", "expired", "withdrawn"] = "answered"
    answer: object = None
    scope: GrantScope | None = None
    pattern: str | None = None
    by: str = ""
    metadata: Mapping[str, object] = {}


class TaintMarked(Event, frozen=True, kw_only=True, tag="taint.marked"):
    """The thread has read data with this label; labels only ever grow."""

    label: Literal["private", "untrusted"]
    origin: str
