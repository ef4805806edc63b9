"""Events of a step: the model is asked, it answers or fails, calls start and settle."""

from collections.abc import Mapping

from retinue.schema.completion import Usage
from retinue.schema.events.base import Event
from retinue.schema.ids import CallId
from retinue.schema.message import Outcome, Part
from retinue.schema.thread import SideName


class ModelAsked(Event, frozen=True, kw_only=True, tag="model.asked"):
    """A request is about to leave. A log that ends here charges the reservation."""

    step: int
    side: SideName = "a"
    model: str
    """provider/model as resolved."""
    format: str
    attempt: int = 1
    chain: str = ""
    """The hash chain of the request's fragments."""
    tools: tuple[str, ...] = ()
    reserved_cost: int | None = None
    reserved_tokens: int = 0
    note: str | None = None
    """Why this model: a fallback, a mapping."""


class ModelAnswered(Event, frozen=True, kw_only=True, tag="model.answered"):
    """The model's turn. Calls in `parts` are thereby recorded, before anything runs."""

    side: SideName = "a"
    parts: tuple[Part, ...]
    finish: str = "stop"
    usage: Usage = Usage()
    cost: int | None = None
    duration: float = 0.0
    spent: float = 0.0
    """Active seconds of the run so far."""


class ModelFailed(Event, frozen=True, kw_only=True, tag="model.failed"):
    error: str
    code: str = "model_error"
    status: int | None = None
    retry_in: float | None = None
    """None: no further attempt with this provider."""


class CallStarted(Event, frozen=True, kw_only=True, tag="call.started"):
    """An effect that can't be repeated is about to happen.

    A log that ends here was cut before or during it, and nobody can tell which.
    """

    call: CallId


class CallSettled(Event, frozen=True, kw_only=True, tag="call.settled"):
    outcome: Outcome
    duration: float = 0.0


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context.compacted"):
    """Requests from here on hold `summary` in place of everything before turn `kept_from`."""

    side: SideName = "a"
    summary: str
    kept_from: int
    trimmed: tuple[CallId, ...] = ()
    """Calls whose outcomes are shown shortened from here on."""
    left: int = 0
    """Tokens that a request holds after it, as far as can be told."""
    usage: Usage = Usage()
    cost: int | None = None


class HistoryChanged(Event, frozen=True, kw_only=True, tag="history.changed"):
    """A hook or the trimming of outputs replaced a part of what the model is sent."""

    hook: str
    side: SideName = "a"
    turn: int
    """Which turn of that side's history, from 0; -1 is the system prompt."""
    parts: tuple[Part, ...]


class HookFailed(Event, frozen=True, kw_only=True, tag="hook.failed"):
    hook: str
    error: str


class AuxiliaryUsed(Event, frozen=True, kw_only=True, tag="auxiliary.used"):
    """A hidden agent (title, summary, compaction) asked a model on this thread's account."""

    agent: str
    model: str
    usage: Usage
    cost: int | None = None
    metadata: Mapping[str, object] = {}
