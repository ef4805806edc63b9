"""Events of a thread's life: started, handed over, titled, forked, terminated."""

from collections.abc import Mapping

import msgspec

from retinue.schema.agent import AgentDefinition, Budget, Compaction, SandboxMode
from retinue.schema.events.base import Event
from retinue.schema.ids import CallId, Seq, ThreadId
from retinue.schema.permission import Rule
from retinue.schema.thread import People


class Pin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The exact definition a thread runs, whatever its source does later."""

    definition: AgentDefinition
    source: str = ""
    repository: str | None = None
    commit: str | None = None
    trusted: bool = True


class Ancestor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    thread: ThreadId
    agent: str


class ThreadStarted(Event, frozen=True, kw_only=True, tag="thread.started"):
    thread: ThreadId
    pin: Pin
    path: tuple[Ancestor, ...] = ()
    """From the root to the caller; empty for a root."""
    call: CallId | None = None
    """The call of the parent that started it."""
    workspace: str = ""
    people: People = "wait"
    tenant: str = "default"
    project: str = ""
    """The folder whose settings judge the tree, whichever process drives it; empty: that process's own."""
    name: str | None = None
    title: str | None = None
    description: str | None = None
    model: str | None = None
    """Asked for by the caller, over the definition's."""
    inherited_model: str | None = None
    """The caller's model, for `inherit`."""
    inherited_compaction: Compaction | None = None
    ceiling: tuple[Rule, ...] = ()
    """Denies that descend from operator, user, project and session of the callers."""
    read_only: bool = False
    """A planning caller's ceiling."""
    budget: Budget = Budget()
    """Caps asked for by whoever started it, over the definition's."""
    capped: bool = False
    """A budget of its own or of a caller limits it, so every request is reserved first."""
    cost_capped: bool = False
    """One of those budgets is in money, so the price of every model must be known."""
    sandbox: SandboxMode = "auto"
    max_depth: int | None = None
    blocking: bool = False
    resumable: bool = False
    explicit_communication: bool = False
    receives_messages: str = "side_a"
    env: Mapping[str, str] = {}
    """Values set for this thread. Secret by default: redacted wherever events are shown."""
    scoped_env: tuple[str, ...] = ()
    """Names in `env` that no descendant inherits and no model may see."""
    forked_from: ThreadId | None = None
    forked_at: Seq | None = None


class ThreadTitled(Event, frozen=True, kw_only=True, tag="thread.titled"):
    title: str


class ThreadSummarized(Event, frozen=True, kw_only=True, tag="thread.summarized"):
    summary: str


class SegmentStarted(Event, frozen=True, kw_only=True, tag="segment.started"):
    """From here on another definition runs the thread: a handoff, or a fork with another version."""

    pin: Pin
    call: CallId | None = None
    model: str | None = None
    prompt: str | None = None
    """Replaces the definition's prompt (fork with another prompt)."""


class ThreadForked(Event, frozen=True, kw_only=True, tag="thread.forked"):
    """Everything before is inherited from another thread and was not paid for here."""

    source: ThreadId
    at_seq: Seq


class ThreadTerminated(Event, frozen=True, kw_only=True, tag="thread.terminated"):
    reason: str = ""
