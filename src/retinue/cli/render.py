"""How what happens in a thread looks on a screen: text streams, a call is one line, children are indented.

Knows events and deltas; nothing here decides what to do about them.
"""

from retinue.app.conversation import result_text
from retinue.app.views import resource_of
from retinue.cli.status import Meter, Screen, Style, duration
from retinue.runtime.follow import Followed, Happened
from retinue.runtime.live import Piece
from retinue.schema.completion import Completion
from retinue.schema.events.children import ChildStarted, VariablesRequested
from retinue.schema.events.runs import GraceStarted, RunCompleted, RunFailed, RunInterrupted, RunResumed, RunStarted
from retinue.schema.events.steps import (
    CallSettled,
    CallStarted,
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
        self._doing: dict[ThreadId, str] = {}

    def show(self, item: Followed) -> None:
        if isinstance(item, Piece):
            self._piece(item)
        else:
            self.meter.take(item.event)
            self._event(item)

    def count(self, item: Happened) -> None:
        """Take in what happened before anybody looked, without showing it."""
        self.meter.take(item.event)
        if isinstance(item.event, ModelAnswered):
            self._calls |= {call.id: call for call in calls_of(item.event.parts)}

    def tick(self) -> None:
        self.screen.status(self.meter.text(next(reversed(self._doing.values()), "")))

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
        if piece.kind in ("call", "output"):
            last = piece.text.strip().splitlines()[-1:]
            self._doing[piece.thread] = " ".join([self._doing.get(piece.thread, "").partition(" | ")[0], "|", *last])
        if piece.thread == self._thread and piece.kind in ("text", "thinking"):
            self._stream(piece.kind, piece.text)

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
            case RunStarted() | ModelAsked():
                model = f"{event.model} thinks" if event.model else "starts"
                self._doing[item.thread] = self._named(item, model)
                if root:
                    self._streamed = {}
            case ModelAnswered():
                self._calls |= {call.id: call for call in calls_of(event.parts)}
                if calls := calls_of(event.parts):
                    self._doing[item.thread] = self._named(item, _about(calls[0]))
                if root:
                    self._rest(event.parts)
            case CallStarted():
                if call := self._calls.get(event.call):
                    self._doing[item.thread] = self._named(item, _about(call))
            case CallSettled():
                self._settled(item, event)
            case ModelFailed() if event.code != "aborted":
                again = "" if event.retry_in is None else f"; asked again in {duration(event.retry_in)}"
                self._line(item, f"! {event.error}{again}", "yellow")
            case RunCompleted() | RunFailed():
                self._doing.pop(item.thread, None)
                if not root:
                    self._ended(item, event.completion)
            case _:
                self._other(item)

    def _other(self, item: Happened) -> None:
        match item.event:
            case ChildStarted() as child:
                self._line(item, f"▸ {child.name}: {_short(child.title or child.description)}", "bold")
            case ContextCompacted():
                self._line(item, "the context was compacted", "dim")
            case GraceStarted() as grace:
                self._line(item, f"one last turn: {grace.recovering_from}", "yellow")
            case RunInterrupted():
                self._doing.pop(item.thread, None)
                if item.thread != self._thread:
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
        about = _about(call) if call else outcome.tool
        parts = [mark, about, duration(event.duration) if event.duration >= 0.05 else ""]
        if outcome.status != "ok":
            parts.append(f"{outcome.status}: {_short(outcome.text)}")
        self._line(item, "  ".join(filter(None, parts)), style if outcome.status != "ok" else "dim")

    def _ended(self, item: Happened, completion: Completion) -> None:
        style: Style = "red" if completion.status == "FAILED" else "dim"
        said = _short(completion.error or result_text(completion.result))
        self._line(item, f"◂ {completion.status} after {duration(completion.duration)}: {said}", style)

    def _line(self, item: Happened, text: str, style: Style) -> None:
        self.screen.line("  " * (len(item.path) + 1) + self._named(item, text), style)

    def _named(self, item: Happened, text: str) -> str:
        return f"{' › '.join(item.path)}  {text}" if item.path else text


def _about(call: Call) -> str:
    return f"{call.tool} {_short(resource_of(call.arguments))}".rstrip()


def _short(text: str, most: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
