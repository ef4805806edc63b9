"""The state of a thread: what a fold of its log yields, and nothing that is not in the log.

Small on purpose: conversations are not kept here but encoded in
`retinue.runtime.context`, so that thousands of threads fit in one process.
`retinue.runtime.project` is the only writer.
"""

from dataclasses import dataclass, field

from retinue.schema.completion import CallSummary, Completion, Reason, Usage
from retinue.schema.events.children import ChildStarted, FileAttached, VariablesRequested
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import MessageReceived, RunStarted, RunWaiting
from retinue.schema.events.steps import ContextCompacted, ModelAnswered, ModelAsked
from retinue.schema.events.threads import Pin, SegmentStarted, ThreadStarted
from retinue.schema.ids import CallId, MessageId, QuestionId, Seq, ThreadId
from retinue.schema.message import Call, Outcome
from retinue.schema.thread import SideName, ThreadStatus


@dataclass(slots=True)
class CallState:
    """One call of the current step, from recorded to settled."""

    call: Call
    started: bool = False
    outcome: Outcome | None = None
    question: QuestionAsked | None = None
    reply: QuestionSettled | None = None
    child: ThreadId | None = None
    variables: VariablesRequested | None = None

    @property
    def waits(self) -> bool:
        """Nothing but a person, a child or variables can move it."""
        asked = self.question is not None and self.reply is None
        return self.outcome is None and (asked or self.child is not None or self.variables is not None)


@dataclass(slots=True)
class ChildState:
    started: ChildStarted
    at: float
    status: str = "running"
    """running, queued, idle, completed, failed or terminated."""
    words: str = ""
    """The status text that the child has set in its current run."""
    done: bool = False

    @property
    def shown(self) -> str:
        """S4's status: the child's own words while it runs."""
        return self.words if self.words and not self.done and self.status != "terminated" else self.status

    @property
    def ended(self) -> bool:
        return self.done or self.status == "terminated"


@dataclass(slots=True)
class RunState:
    started: RunStarted
    seq: Seq
    at: float
    active: SideName = "a"
    steps: int = 0
    side_steps: dict[SideName, int] = field(default_factory=lambda: {"a": 0, "b": 0})
    """Of the turn under way."""
    session_turns: int = 0
    spent: float = 0.0
    """Active seconds up to the last event that says so."""
    grace: Reason | None = None
    """What the recovery turn recovers from, once it has begun."""
    grace_from: float = 0.0
    usage: Usage = Usage()
    cost: int | None = 0
    calls: list[CallSummary] = field(default_factory=list[CallSummary])
    last_text: str = ""
    completion: Completion | None = None


@dataclass(slots=True)
class Attempts:
    """Failures since the last answer; they decide whom to ask next and when."""

    tried: int = 0
    candidate: int = 0
    retry_at: float | None = None
    overflowed: bool = False
    compacted: bool = False
    exhausted: str | None = None
    """The last error, once no candidate is left."""


@dataclass(slots=True)
class State:
    thread: ThreadStarted
    pin: Pin
    segment: SegmentStarted | None = None
    segment_seq: Seq = 1
    head: Seq = 0
    status: ThreadStatus = "idle"
    waiting: RunWaiting | None = None
    title: str | None = None
    summary: str | None = None
    runs: int = 0
    run: RunState | None = None
    unanswered: list[MessageReceived] = field(default_factory=list[MessageReceived])
    """Messages since the last request; they start a run when none is on."""
    last_message: MessageId | None = None
    first: MessageReceived | None = None
    """The message that starts, or will start, the run."""
    asked: ModelAsked | None = None
    asked_seq: Seq = 0
    answer: ModelAnswered | None = None
    """The answer whose calls are being settled or whose stops are not yet judged."""
    answer_seq: Seq = 0
    calls: dict[CallId, CallState] = field(default_factory=dict[CallId, CallState])
    attempts: Attempts = field(default_factory=Attempts)
    called: dict[str, None] = field(default_factory=dict[str, None])
    """Every tool that the conversation holds a call of, in the order of their first."""
    handed_over: tuple[str, ...] = ()
    """Those that were called before the current definition took over."""
    repeated: tuple[str, int] = ("", 0)
    """The last call's signature and how often it came in a row."""
    children: dict[ThreadId, ChildState] = field(default_factory=dict[ThreadId, ChildState])
    variables: dict[str, VariablesRequested] = field(default_factory=dict[str, VariablesRequested])
    held: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Sealed values that came for a request which still misses others."""
    questions: dict[QuestionId, QuestionAsked] = field(default_factory=dict[QuestionId, QuestionAsked])
    taints: set[str] = field(default_factory=set[str])
    files: dict[str, FileAttached] = field(default_factory=dict[str, FileAttached])
    context_tokens: dict[SideName, int] = field(default_factory=lambda: {"a": 0, "b": 0})
    """What the last request and its answer took of the window, as the provider counted."""
    compacted: dict[SideName, ContextCompacted] = field(default_factory=dict[SideName, ContextCompacted])
    steps: int = 0
    usage: Usage = Usage()
    cost: int | None = 0
    inherited: Seq = 0
    """Events up to here were copied by a fork and paid for elsewhere."""

    @property
    def running(self) -> bool:
        return self.run is not None and self.run.completion is None

    @property
    def open_calls(self) -> list[CallState]:
        return [c for c in self.calls.values() if c.outcome is None]

    @property
    def dual(self) -> bool:
        return self.pin.definition.type == "dual_ai"


def add_cost(total: int | None, more: int | None) -> int | None:
    """Unknown stays unknown: a sum with one unpriced request has no honest figure."""
    return None if total is None or more is None else total + more
