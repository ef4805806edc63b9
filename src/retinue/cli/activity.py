"""What each thread of a tree is doing now, and what it has used: folded from its events and deltas."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from retinue.app.views import resource_of
from retinue.cli.output import amount, count, duration, money
from retinue.runtime.state import add_cost
from retinue.schema.events.runs import RunCompleted, RunFailed, RunInterrupted, RunStarted, RunWaiting
from retinue.schema.events.steps import AuxiliaryUsed, CallSettled, ContextCompacted, ModelAnswered, ModelAsked
from retinue.schema.events.threads import ThreadTerminated
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import CallId
from retinue.schema.message import Call, calls_of

WAITS_FOR = {
    "question": "a person",
    "child": "its children",
    "variables": "variables",
    "retry": "the provider, then asks again",
    "slot": "a place",
}
_TASKS = ("input", "prompt", "message", "query", "task", "description")


class Meter:
    """What a thread or a tree has used, counted from its events."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._start = now, now()
        self.steps = self.tokens = 0
        self.cost: int | None = 0

    def take(self, event: AnyEvent) -> None:
        if isinstance(event, ModelAnswered | ContextCompacted | AuxiliaryUsed):
            self.steps += isinstance(event, ModelAnswered)
            self.tokens += event.usage.total
            self.cost = add_cost(self.cost, event.cost)

    def text(self, doing: str = "") -> str:
        figures = [duration(self._now() - self._start), self.used]
        return " · ".join([*figures, *([doing] if doing else [])])

    @property
    def used(self) -> str:
        return f"{count(self.steps, 'step')} · {amount(self.tokens)} tokens · {money(self.cost)}"


@dataclass(slots=True)
class Activity:
    """One thread. `place` orders a tree's threads, children after their parent."""

    name: str = ""
    place: tuple[int, ...] = ()
    meter: Meter = field(default_factory=Meter)
    children: int = 0
    over: bool = False
    _state: str = "starts"
    _calls: dict[CallId, str] = field(default_factory=dict[CallId, str])
    """Those that have no outcome yet."""
    _last: str = ""
    """The last line of what came as deltas."""

    def take(self, event: AnyEvent) -> None:
        self.meter.take(event)
        self._last = ""
        match event:
            case RunStarted():
                self.over, self._state = False, "starts"
            case ModelAsked():
                self.over, self._state = False, f"{event.model} thinks"
                self._calls.clear()
            case ModelAnswered():
                self._calls = {call.id: about(call) for call in calls_of(event.parts)}
            case CallSettled():
                self._calls.pop(event.outcome.call, None)
            case RunWaiting():
                self._state = f"waits for {WAITS_FOR.get(event.waiting_for, event.waiting_for)}"
                self._calls.clear()
            case RunCompleted() | RunFailed() | RunInterrupted() | ThreadTerminated():
                self.over = True
            case _:
                pass

    def hear(self, text: str) -> None:
        """A piece of what the model says or a command prints."""
        *_, self._last = ["", *(line for line in (self._last + text[-500:]).splitlines(keepends=True) if line.strip())]

    @property
    def text(self) -> str:
        doing = ", ".join(self._calls.values()) or self._state
        return f"{doing} | {self._last.strip()}" if self._last.strip() else doing


def about(call: Call) -> str:
    return f"{call.tool} {short(resource_of(call.arguments))}".rstrip()


def task_of(call: Call | None) -> str:
    """What a call that starts a child wants of it."""
    try:
        values = msgspec.json.decode(call.arguments, type=dict[str, object]) if call else {}
    except msgspec.MsgspecError:
        return ""
    return next((value for key in _TASKS if isinstance(value := values.get(key), str)), "")


def short(text: str, most: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
