"""A thread's log as one side sees it: alternating turns, never empty, never two of one role.

A side sees itself as assistant and the other as user, and not the other's calls.
A turn is emitted when it can no longer change: a user turn once it was
answered, an assistant turn at once. What is still being gathered is in `open_turns`.
"""

from collections.abc import Mapping, Sequence

from retinue.schema.events.runs import GraceStarted, MessageReceived, RunStarted, TurnEnded
from retinue.schema.events.steps import CallSettled, ContextCompacted, HistoryChanged, ModelAnswered
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import CallId
from retinue.schema.message import Outcome, Part, Role, Text, Turn, calls_of, text_of
from retinue.schema.thread import SideName

OPENING = "(The conversation starts here.)"
CONTINUE = "(Go on, or use a tool that finishes your turn.)"
EMPTY = "(no text)"
SUMMARY = (
    "What happened so far has been summarised to save space. The summary replaces the earlier messages:\n\n"
    "<summary>\n{summary}\n</summary>"
)
TRIMMED_TO = 1000
"""Characters that stay of an output which compaction shortened."""


class Perspective:
    """Feed it events in order; it hands back the turns that are now final."""

    def __init__(
        self,
        side: SideName,
        *,
        compacted: ContextCompacted | None = None,
        changed: Mapping[int, tuple[Part, ...]] = {},
    ) -> None:
        self.side: SideName = side
        self._kept_from = compacted.kept_from if compacted else 0
        self._summary = SUMMARY.format(summary=compacted.summary) if compacted and compacted.kept_from else None
        self._trimmed = frozenset(compacted.trimmed) if compacted else frozenset[CallId]()
        self._changed = changed
        self._count = 0
        self._role: Role | None = None
        self._parts: list[Part] = []
        self._order: dict[CallId, int] = {}
        self._open: tuple[Turn, ...] | None = None
        """`open_turns` until something is added: what was asked with is what becomes final."""

    @property
    def count(self) -> int:
        """Turns emitted so far, those hidden by compaction included."""
        return self._count

    def feed(self, event: AnyEvent) -> list[Turn]:
        match event:
            case MessageReceived():
                return self._add("assistant" if event.side == self.side else "user", event.parts)
            case RunStarted() if event.query is not None and self.side == "a":
                self._parts = [*(p for p in self._parts if not isinstance(p, Text)), Text(text=event.query)]
                self._open = None
                return []
            case ModelAnswered():
                return self._own_answer(event) if event.side == self.side else self._say(text_of(event.parts))
            case CallSettled() if event.outcome.call in self._order:
                return self._add("user", (self._shown(event.outcome),))
            case TurnEnded() if event.side != self.side and event.text:
                return self._say(event.text)
            case GraceStarted():
                return self._say(event.text)
            case _:
                return []

    def open_turns(self) -> tuple[Turn, ...]:
        """What a request sent now would hold after the final turns: it ends with a user turn."""
        if self._open is None:
            self._open = self._gathered()
        return self._open

    def _gathered(self) -> tuple[Turn, ...]:
        if self._role == "user" and self._parts:
            return (self._changed_turn(self._count, self._ordered()),)
        filler = Turn(role="user", parts=(Text(text=CONTINUE if self._count or self._parts else OPENING),))
        if self._role == "assistant":
            return Turn(role="assistant", parts=tuple(self._parts)), filler
        return (filler,)

    def _own_answer(self, event: ModelAnswered) -> list[Turn]:
        turns = [emitted for turn in self.open_turns() for emitted in self._emit(turn)]
        calls = calls_of(event.parts)
        sendable = calls or text_of(event.parts).strip()
        turns += self._emit(Turn(role="assistant", parts=event.parts if sendable else (*event.parts, Text(text=EMPTY))))
        self._order = {call.id: i for i, call in enumerate(calls)}
        self._role, self._parts, self._open = None, [], None
        return turns

    def _say(self, text: str) -> list[Turn]:
        return self._add("user", (Text(text=text),)) if text.strip() else []

    def _add(self, role: Role, parts: tuple[Part, ...]) -> list[Turn]:
        """Extend the turn being gathered, or begin the other role's."""
        turns: list[Turn] = []
        if self._role == role:
            self._parts.extend(parts)
            self._open = None
            return turns
        if self._role is not None:
            turns = self._emit(Turn(role=self._role, parts=self._ordered().parts))
        elif role == "assistant":
            turns = [emitted for turn in self.open_turns() for emitted in self._emit(turn)]
        self._role, self._parts, self._open = role, list(parts), None
        return turns

    def _ordered(self) -> Turn:
        """Outcomes first, in the order of their calls, whatever order they came in."""
        outcomes = [p for p in self._parts if isinstance(p, Outcome)]
        if len(outcomes) > 1:
            outcomes.sort(key=lambda outcome: self._order.get(outcome.call, 0))
        rest = [p for p in self._parts if not isinstance(p, Outcome)]
        return Turn(role=self._role or "user", parts=(*outcomes, *rest))

    def _shown(self, outcome: Outcome) -> Outcome:
        if outcome.call not in self._trimmed or len(outcome.text) <= TRIMMED_TO:
            return outcome
        left_out = len(outcome.text) - TRIMMED_TO
        text = f"{outcome.text[:TRIMMED_TO]}\n… ({left_out} characters left out to save space)"
        return Outcome(call=outcome.call, tool=outcome.tool, status=outcome.status, text=text)

    def _changed_turn(self, index: int, turn: Turn) -> Turn:
        if not self._changed:
            return turn
        parts = self._changed.get(index)
        return turn if parts is None else Turn(role=turn.role, parts=parts)

    def _emit(self, turn: Turn) -> list[Turn]:
        index, self._count = self._count, self._count + 1
        turn = self._changed_turn(index, turn)
        if index < self._kept_from:
            return []
        if index == self._kept_from and self._summary is not None and turn.role == "assistant":
            return [Turn(role="user", parts=(Text(text=self._summary),)), turn]
        return [turn]


def changes_of(events: Sequence[AnyEvent], side: SideName) -> dict[int, tuple[Part, ...]]:
    """What hooks replaced in the history, by turn; the last change of a turn counts."""
    return {e.turn: e.parts for e in events if isinstance(e, HistoryChanged) and e.side == side}
