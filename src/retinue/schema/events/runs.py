"""Events of runs: a message comes, a run starts, stops, goes on, completes."""

from collections.abc import Mapping

from retinue.schema.agent import CompletionMode, ExecutionMode
from retinue.schema.completion import Completion
from retinue.schema.events.base import Event
from retinue.schema.ids import MessageId, ThreadId
from retinue.schema.message import Part
from retinue.schema.thread import SideName, WaitingFor


class MessageReceived(Event, frozen=True, kw_only=True, tag="message.received"):
    """Drained from the inbox. A silent one is context and starts nothing by itself in a human's view."""

    id: MessageId
    parts: tuple[Part, ...]
    side: SideName = "b"
    """Who says it; b is the human of an ai_human thread."""
    silent: bool = False
    sender: ThreadId | None = None
    """The child or parent it came from."""
    inputs: Mapping[str, object] = {}
    """The agent's declared inputs, when this message starts its run."""


class RunStarted(Event, frozen=True, kw_only=True, tag="run.started"):
    """What is evaluated once a run and then fixed."""

    run: int
    agent: str
    name: str
    mode: ExecutionMode
    completion: CompletionMode
    model: str
    inputs: Mapping[str, object] = {}
    prompt: str = ""
    """The run's first message, the `{{prompt}}` of templates."""
    query: str | None = None
    """The first user message as the agent's `query` words it, when that differs from the prompt."""
    system: Mapping[str, str] = {}
    """The rendered system prompt of each AI side, prefix included."""
    max_steps: int = 30
    timeout: float = 1800.0
    cost_cap: int | None = None
    token_cap: int | None = None


class RunInterrupted(Event, frozen=True, kw_only=True, tag="run.interrupted"):
    by: str = "user"


class RunResumed(Event, frozen=True, kw_only=True, tag="run.resumed"):
    """The run goes on after an interruption, a crash or a wait; `spent` is active seconds so far."""

    spent: float = 0.0
    after: str = "crash"


class RunWaiting(Event, frozen=True, kw_only=True, tag="run.waiting"):
    """Parked. The run's clock stops when a person is waited for."""

    waiting_for: WaitingFor
    spent: float = 0.0
    until: float | None = None


class RunCompleted(Event, frozen=True, kw_only=True, tag="run.completed"):
    completion: Completion


class RunFailed(Event, frozen=True, kw_only=True, tag="run.failed"):
    """A bug or an unusable setting ended the run; the details are in our log, not here."""

    error: str
    completion: Completion


class TurnEnded(Event, frozen=True, kw_only=True, tag="turn.ended"):
    """A side stopped and the other one takes over (dual_ai)."""

    side: SideName
    why: str
    text: str | None = None
    """What a stop tool hands to the other side, where a reply's text would."""


class GraceStarted(Event, frozen=True, kw_only=True, tag="run.grace"):
    """The recovery turn: one more request that offers only the completion tool."""

    recovering_from: str
    text: str
    """What the model is told."""
    spent: float = 0.0
