"""A thread's log as a conversation that people read: who said what, each call and its outcome.

What compaction took out of the model's sight is all here, marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from retinue.runtime.perspective import Perspective
from retinue.schema.completion import Completion
from retinue.schema.events.children import ChildReported, ChildStarted, FileAttached, VariablesRequested
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import (
    GraceStarted,
    MessageReceived,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    TurnEnded,
)
from retinue.schema.events.steps import CallSettled, ContextCompacted, HookFailed, ModelAnswered, ModelFailed
from retinue.schema.events.threads import SegmentStarted, ThreadForked, ThreadStarted, ThreadTerminated
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import CallId, Seq, ThreadId
from retinue.schema.message import Call, Media, Outcome, Part, Text, Thinking

EntryKind = Literal["message", "thinking", "text", "call", "outcome", "question", "answer", "child", "note", "end"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    seq: Seq
    at: float
    kind: EntryKind
    who: str = ""
    text: str = ""
    tool: str | None = None
    call: CallId | None = None
    status: str | None = None
    duration: float | None = None
    hidden: bool = False
    """The model no longer sees it: a summary stands in its place."""
    shortened: bool = False
    """The model sees only the beginning of this output."""


def conversation(log: Sequence[tuple[Seq, AnyEvent]]) -> list[Entry]:
    """Every entry in order."""
    hidden, shortened = _compacted(log)
    names = _Names(log)
    entries: list[Entry] = []
    for seq, event in log:
        for entry in _entries(seq, event, names):
            gone, short = seq in hidden, entry.kind == "outcome" and entry.call in shortened
            entries.append(msgspec.structs.replace(entry, hidden=gone, shortened=short) if gone or short else entry)
    return entries


def result_text(result: object) -> str:
    """A run's result as text: itself, or the JSON of a structured one."""
    return result if isinstance(result, str) else msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def markdown(title: str, entries: Sequence[Entry]) -> str:
    """The conversation as a document."""
    return "\n\n".join([f"# {title}", *filter(None, map(_markdown, entries))]) + "\n"


class _Names:
    """Who is who in a thread."""

    def __init__(self, log: Sequence[tuple[Seq, AnyEvent]]) -> None:
        started = log[0][1]
        assert isinstance(started, ThreadStarted)
        definition = started.pin.definition
        self.agent = definition.name
        sides: Mapping[str, str | None] = {"a": definition.side_a.label}
        if definition.side_b is not None:
            sides = {**sides, "b": definition.side_b.label or "side b"}
        self._sides = sides
        self._children = {e.reference: e.name for _, e in log if isinstance(e, ChildStarted)}

    def side(self, side: str) -> str:
        return self._sides.get(side) or self.agent

    def sender(self, message: MessageReceived) -> str:
        if message.sender is not None:
            return self.child(message.sender) if message.sender in self._children else "caller"
        return "user" if message.side == "b" else self.side("a")

    def child(self, reference: ThreadId) -> str:
        return self._children.get(reference, reference[:8])


def _entries(seq: Seq, event: AnyEvent, names: _Names) -> Iterator[Entry]:
    def entry(kind: EntryKind, text: str = "", *, who: str = "", status: str | None = None) -> Entry:
        return Entry(seq=seq, at=event.at, kind=kind, who=who, text=text, status=status)

    match event:
        case MessageReceived():
            yield entry("message", _said(event.parts), who=names.sender(event))
        case ModelAnswered():
            yield from _answer(seq, event, names.side(event.side))
        case CallSettled():
            yield _outcome(seq, event)
        case QuestionAsked():
            yield entry("question", event.prompt, status=event.kind)
        case QuestionSettled():
            answer = "" if event.answer is None else result_text(event.answer)
            yield entry("answer", answer, who=event.by, status=event.scope or event.status)
        case ChildStarted():
            yield entry("child", event.description, who=event.name, status=f"started as {event.reference}")
        case ChildReported():
            yield entry("child", who=names.child(event.reference), status=event.status)
        case ContextCompacted():
            text = event.summary or f"{len(event.trimmed)} outputs are shown shortened from here on."
            yield entry("note", f"Compacted. {text}")
        case RunCompleted() | RunFailed():
            yield entry("end", _ending(event.completion), who=names.agent, status=event.completion.status)
        case _:
            if text := _note(event):
                yield entry("note", text)


def _note(event: AnyEvent) -> str:
    match event:
        case ModelFailed() if event.code != "aborted":
            again = "" if event.retry_in is None else f" Asked again in {event.retry_in:.0f} s."
            return f"The model failed: {event.error}.{again}"
        case GraceStarted():
            return f"Recovery turn, from {event.recovering_from}."
        case RunInterrupted():
            return f"Interrupted by {event.by}."
        case RunResumed() if event.after in ("interrupt", "crash"):
            return f"Resumed after {event.after}."
        case TurnEnded():
            return f"Side {event.side} ended its turn ({event.why})."
        case SegmentStarted():
            return f"From here on {event.pin.definition.id} has the thread."
        case ThreadForked():
            return f"Forked from {event.source} at {event.at_seq}."
        case ThreadTerminated():
            return f"Terminated. {event.reason}".strip()
        case FileAttached():
            return f"File {event.path} ({event.size} bytes)."
        case VariablesRequested():
            return f"Waits for the variables {', '.join(event.names)} (request {event.request})."
        case HookFailed():
            return f"Hook {event.hook} failed: {event.error}"
        case _:
            return ""


def _answer(seq: Seq, event: ModelAnswered, who: str) -> Iterator[Entry]:
    for part in event.parts:
        match part:
            case Thinking() if part.text:
                yield Entry(seq=seq, at=event.at, kind="thinking", who=who, text=part.text)
            case Text() if part.text:
                yield Entry(seq=seq, at=event.at, kind="text", who=who, text=part.text)
            case Call():
                yield Entry(
                    seq=seq, at=event.at, kind="call", who=who, tool=part.tool, text=part.arguments, call=part.id
                )
            case _:
                pass


def _outcome(seq: Seq, event: CallSettled) -> Entry:
    outcome: Outcome = event.outcome
    return Entry(
        seq=seq,
        at=event.at,
        kind="outcome",
        tool=outcome.tool,
        call=outcome.call,
        status=outcome.status,
        duration=event.duration,
        text=_said((Text(text=outcome.text), *outcome.media)),
    )


def _said(parts: Sequence[Part]) -> str:
    media = [f"[{p.mime} {p.name or p.path or ''}]".replace(" ]", "]") for p in parts if isinstance(p, Media)]
    return "\n".join([*(p.text for p in parts if isinstance(p, Text)), *media])


def _ending(completion: Completion) -> str:
    return "\n".join(filter(None, [result_text(completion.result), completion.error]))


def _compacted(log: Sequence[tuple[Seq, AnyEvent]]) -> tuple[frozenset[Seq], frozenset[CallId | None]]:
    """Events that the last summary stands for, and calls whose outcomes are shown shortened."""
    found = [event for _, event in log if isinstance(event, ContextCompacted)]
    if not found:
        return frozenset(), frozenset()
    last = found[-1]
    perspective = Perspective(last.side)
    hidden: set[Seq] = set()
    for seq, event in log:
        perspective.feed(event)
        own = isinstance(event, ModelAnswered) and event.side == last.side
        turn = perspective.count - 1 if own else perspective.count
        if turn < last.kept_from and isinstance(event, MessageReceived | ModelAnswered | CallSettled):
            hidden.add(seq)
    return frozenset(hidden), frozenset(last.trimmed)


def _markdown(entry: Entry) -> str:
    match entry.kind:
        case "message" | "text":
            return f"**{entry.who}**{_marks(entry)}\n\n{entry.text}"
        case "thinking":
            return "\n".join(f"> {line}" for line in entry.text.splitlines())
        case "call":
            return f"**{entry.who}** calls `{entry.tool}`{_marks(entry)}\n\n{_fenced(entry.text, 'json')}"
        case "outcome":
            took = f", {entry.duration:.1f} s" if entry.duration else ""
            return f"`{entry.tool}`: {entry.status}{took}{_marks(entry)}\n\n{_fenced(entry.text)}"
        case "end":
            return f"---\n\n**{entry.status}**\n\n{entry.text}"
        case "note":
            return f"*{entry.text}*"
        case _:
            return f"*{entry.kind} {entry.who} {entry.status or ''}: {entry.text}*".replace(" :", ":")


def _marks(entry: Entry) -> str:
    return " *(summarised for the model)*" if entry.hidden else " *(shortened for the model)*" * entry.shortened


def _fenced(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
