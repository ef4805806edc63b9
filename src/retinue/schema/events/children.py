"""Events of children: started, reported, steered; what the registry of a parent is folded from."""

from collections.abc import Mapping

from retinue.schema.completion import Usage
from retinue.schema.events.base import Event
from retinue.schema.ids import CallId, ThreadId


class ChildStarted(Event, frozen=True, kw_only=True, tag="child.started"):
    """S4's registry entry is this event and the updates after it."""

    reference: ThreadId
    call: CallId
    agent: str
    name: str
    title: str | None = None
    description: str = ""
    resumable: bool = False
    blocking: bool = True
    spawn_group: str = ""
    explicit_communication: bool = False
    receives_messages: str = "side_a"
    commit: str | None = None
    immediate: bool = False
    queued: bool = False
    """Started, and waiting until one of its siblings is done."""


class ChildMessaged(Event, frozen=True, kw_only=True, tag="child.messaged"):
    """A resumable child was spoken to again; a blocking call waits for its next completion."""

    reference: ThreadId
    call: CallId
    blocking: bool = False


class ChildReported(Event, frozen=True, kw_only=True, tag="child.reported"):
    """A child's completion, failure or status reached the parent's log."""

    reference: ThreadId
    status: str
    """running, idle, completed, failed, terminated, or the text the child has set."""
    words: bool = False
    """`status` is the child's own text."""
    result: Mapping[str, object] | None = None
    usage: Usage = Usage()
    cost: int | None = None
    attachments: tuple[str, ...] = ()


class VariablesRequested(Event, frozen=True, kw_only=True, tag="variables.requested"):
    """A child waits for scoped variables; names, never values."""

    request: str
    call: CallId
    names: tuple[str, ...]
    expires: float
    answered: bool = False
    """The call has its outcome already; the child starts on its own when the variables are there."""
    immediate: bool = False
    """The child comes before the first step of its parent."""
    payload: Mapping[str, object] = {}


class VariablesProvided(Event, frozen=True, kw_only=True, tag="variables.provided"):
    request: str
    names: tuple[str, ...]
    values: Mapping[str, str] = {}
    """Sealed."""
    complete: bool = False


class FileAttached(Event, frozen=True, kw_only=True, tag="file.attached"):
    """A file of the thread: content-addressed, under its own local path."""

    path: str
    digest: str
    size: int
    mime: str = "application/octet-stream"
    origin: str = ""
