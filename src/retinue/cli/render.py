"""How what happens in a thread looks on a screen: text streams, a call is one line, children are indented.

Knows events and deltas; nothing here decides what to do about them.
"""

from retinue.app.conversation import result_text
from retinue.cli.activity import Activity, Meter, about, short, task_of
from retinue.cli.output import amount, count, duration, money
from retinue.cli.status import Screen, Style
from retinue.runtime.follow import Followed, Happened
from retinue.runtime.live import Piece
from retinue.schema.completion import Completion
from retinue.schema.events.children import ChildStarted, VariablesRequested
from retinue.schema.events.runs import GraceStarted, RunCompleted, RunFailed, RunInterrupted, RunResumed
from retinue.schema.events.steps import (
    CallSettled,
    ContextCompacted,
    HookFailed,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
)
from retinue.schema.events.threads import SegmentStarted, ThreadTerminated
from retinue.schema.ids import CallId, ThreadId
from retinue.schema.message import Call, Part, Text, Thinking, calls_of

_MARKS: dict[str, tuple[str, Style]] = {"ok": ("✓", "green"), "denied": ("✗", "yellow"), "skipped": ("–", "dim")}


class View:
    """Shows a thread and its children on a screen, each item once."""

    def __init__(self, screen: Screen, thread: ThreadId) -> None:
        self.screen = screen
        self.meter = Meter()
        self._thread = thread
        self._calls: dict[CallId, Call] = {}
        self._streamed: dict[str, str] = {}
        """What of the request under way was shown already, by kind."""
        self._said = ""
        """The text of the last answer."""
        self._threads = {thread: Activity()}

    def show(self, item: Followed) -> None:
        if isinstance(item, Piece):
            self._piece(item)
        else:
            self.count(item)
            self._event(item)

    def count(self, item: Happened) -> None:
        """Take in what happened, without showing it."""
        event = item.event
        self.meter.take(event)
        activity = self._threads.setdefault(item.thread, Activity())
        activity.take(event)
        if isinstance(event, ModelAnswered):
            self._calls |= {call.id: call for call in calls_of(event.parts)}
        if isinstance(event, ChildStarted):
            activity.children += 1
            place = (*activity.place, activity.children)
            self._threads.setdefault(event.reference, Activity(event.name, place))

    def tick(self) -> None:
        self.screen.status(self.status())

    def status(self) -> list[str]:
        """What the tree has used and its root does; then a line for each child that is not over."""
        root = self._threads[self._thread]
        below = sorted((a for a in self._threads.values() if a is not root and not a.over), key=lambda a: a.place)
        columns, rows = self.screen.size
        most, half = max(rows // 3, 1), columns // 2
        width = max((2 * len(a.place) + len(a.name) for a in below[:most]), default=0)
        lines = [self.meter.text(root.text)]
        lines += [
            f"{'  ' * len(a.place) + a.name:<{width}}  {short(a.text, half)} · {a.meter.text()}" for a in below[:most]
        ]
        return lines + [f"  … and {len(below) - most} more at work"] * (len(below) > most)

    def result(self, completion: Completion) -> None:
        """The answer, unless its text has streamed by already."""
        text = result_text(completion.result)
        streamed = self.screen.live and text.strip() == self._said.strip()
        if text.strip() and not streamed:
            self.screen.answer(text)
        self.screen.end_line()
        if completion.error and completion.error != text:
            self.screen.line(f"{completion.status}: {completion.error}", "red")

    # deltas

    def _piece(self, piece: Piece) -> None:
        if piece.thread == self._thread and piece.kind in ("text", "thinking"):
            self._stream(piece.kind, piece.text)
        elif activity := self._threads.get(piece.thread):
            activity.hear(piece.text)

    def _stream(self, kind: str, text: str) -> None:
        if kind == "text" and self._streamed.get("thinking") and not self._streamed.get("text"):
            self.screen.end_line()
        self._streamed[kind] = self._streamed.get(kind, "") + text
        self.screen.stream(text, "dim" if kind == "thinking" else "")

    def _rest(self, parts: tuple[Part, ...]) -> None:
        """Show what of an answer did not come as deltas."""
        whole = {
            "thinking": "".join(p.text for p in parts if isinstance(p, Thinking)),
            "text": "".join(p.text for p in parts if isinstance(p, Text)),
        }
        for kind, text in whole.items():
            seen = self._streamed.get(kind, "")
            if text.startswith(seen):
                text = text[len(seen) :]
            else:
                self.screen.end_line()
            if text:
                self._stream(kind, text)
        self._said = whole["text"]
        self.screen.end_line()

    # events

    def _event(self, item: Happened) -> None:
        event, root = item.event, item.thread == self._thread
        match event:
            case ModelAsked() if root:
                self._streamed = {}
            case ModelAnswered() if root:
                self._rest(event.parts)
            case CallSettled():
                self._settled(item, event)
            case ModelFailed() if event.code != "aborted":
                again = "" if event.retry_in is None else f"; asked again in {duration(event.retry_in)}"
                self._line(item, f"! {event.error}{again}", "yellow")
            case RunCompleted() | RunFailed() if not root:
                self._ended(item, event.completion)
            case _:
                self._other(item)

    def _other(self, item: Happened) -> None:
        match item.event:
            case ChildStarted() as child:
                task = task_of(self._calls.get(child.call)) or child.title or child.description
                later = " (waits for a place)" if child.queued else ""
                self._line(item, f"▸ {child.name}{later}: {short(task)}", "bold")
            case ContextCompacted():
                self._line(item, "the context was compacted", "dim")
            case GraceStarted() as grace:
                self._line(item, f"one last turn: {grace.recovering_from}", "yellow")
            case RunInterrupted() if item.thread != self._thread:
                self._line(item, "interrupted", "yellow")
            case RunResumed(after="interrupt" | "crash") as resumed:
                self._line(item, f"resumed after {resumed.after}", "dim")
            case SegmentStarted() as segment:
                self._line(item, f"▸ {segment.pin.definition.id} takes over", "bold")
            case VariablesRequested() as wanted:
                self._line(item, f"waits for the variables {', '.join(wanted.names)}", "yellow")
            case HookFailed() as hook:
                self._line(item, f"! hook {hook.hook}: {hook.error}", "yellow")
            case ThreadTerminated():
                self._line(item, "terminated", "yellow")
            case _:
                pass

    def _settled(self, item: Happened, event: CallSettled) -> None:
        outcome = event.outcome
        mark, style = _MARKS.get(outcome.status, ("✗", "red"))
        call = self._calls.get(outcome.call)
        parts = [
            mark,
            about(call) if call else outcome.tool,
            duration(event.duration) if event.duration >= 0.05 else "",
        ]
        if outcome.status != "ok":
            parts.append(f"{outcome.status}: {short(outcome.text)}")
        self._line(item, "  ".join(filter(None, parts)), style if outcome.status != "ok" else "dim")

    def _ended(self, item: Happened, completion: Completion) -> None:
        style: Style = "red" if completion.status == "FAILED" else "dim"
        said = short(completion.error or result_text(completion.result))
        used = f"{count(completion.steps, 'step')}, {amount(completion.usage.total)} tokens, {money(completion.cost)}"
        self._line(item, f"◂ {completion.status} after {duration(completion.duration)} ({used}): {said}", style)

    def _line(self, item: Happened, text: str, style: Style) -> None:
        self.screen.line("  " * (len(item.path) + 1) + self._named(item, text), style)

    def _named(self, item: Happened, text: str) -> str:
        return f"{' › '.join(item.path)}  {text}" if item.path else text
