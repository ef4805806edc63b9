"""Makes room in a model's window: outputs are shortened first, then the past is summarised.

The log keeps everything. Calls and their outcomes are never separated, because
what is kept always begins with an assistant turn.
"""

from typing import TYPE_CHECKING

from retinue.ports.model import Model, Request
from retinue.runtime.auxiliary import ask_hidden
from retinue.runtime.context import BYTES_PER_TOKEN, Context
from retinue.runtime.perspective import TRIMMED_TO, Perspective
from retinue.runtime.work import read_log
from retinue.schema.agent import Compaction
from retinue.schema.completion import Usage
from retinue.schema.events.steps import ContextCompacted
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Outcome, Part, Text, Thinking, Turn
from retinue.schema.thread import SideName

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_QUOTED = 2000
"""Characters of an output that the summariser sees."""
_FEWEST = 4
"""Turns that must have come since the last compaction before another can help."""


def settings(work: "Work") -> Compaction:
    return work.state.pin.definition.compaction or work.state.thread.inherited_compaction or Compaction()


def due(work: "Work", context: Context, request: Request, model: Model) -> bool:
    wanted, attempts = settings(work), work.state.attempts
    if wanted.off or attempts.compacted:
        return False
    if attempts.overflowed:
        return True
    kept_from = work.state.compacted.kept_from if work.state.compacted else 0
    if context.turns - kept_from < _FEWEST:
        return False
    side: SideName = work.state.run.active if work.state.run else "a"
    counted = work.state.context_tokens[side]
    added = int((len(request.turns[-1].data) + len(request.tail)) / BYTES_PER_TOKEN)
    tokens = counted + added if counted else context.estimate(request)
    return tokens > wanted.at * model.window


async def compact(work: "Work", side: SideName, model: Model) -> None:
    """Record what the model is shown of the past from here on."""
    await work.flush()
    perspective = Perspective(side)
    turns: list[Turn] = []
    for _, event in await read_log(work.runtime, work.thread):
        turns += perspective.feed(event)
    wanted = settings(work)
    budget = int(wanted.keep * model.window * BYTES_PER_TOKEN)
    kept_from = _kept_from(turns, budget)
    trimmed = _trimmable(turns[:kept_from] if kept_from else turns)
    earlier = work.state.compacted
    if _size(turns, trimmed) < wanted.at * model.window * BYTES_PER_TOKEN * 0.8 and not work.state.attempts.overflowed:
        work.record(ContextCompacted(at=work.now, side=side, summary="", kept_from=0, trimmed=tuple(trimmed)))
        return
    said = await ask_hidden(work, "compaction", transcript(turns[:kept_from], earlier), inherited=model.name)
    summary = said.text if said and said.text else _mechanical(turns[:kept_from])
    work.record(
        ContextCompacted(
            at=work.now,
            side=side,
            summary=summary,
            kept_from=kept_from,
            trimmed=tuple(trimmed),
            usage=said.usage if said else Usage(),
            cost=said.cost if said else 0,
        )
    )


def _kept_from(turns: list[Turn], budget: int) -> int:
    """The first assistant turn of a tail that fits the budget; the last exchange is always kept."""
    size, start = 0, len(turns)
    for index in range(len(turns) - 1, -1, -1):
        size += sum(_length(part) for part in turns[index].parts)
        if size > budget and start < len(turns):
            break
        if turns[index].role == "assistant":
            start = index
    return start


def _trimmable(turns: list[Turn]) -> list[CallId]:
    return [p.call for t in turns for p in t.parts if isinstance(p, Outcome) and len(p.text) > TRIMMED_TO]


def _size(turns: list[Turn], trimmed: list[CallId]) -> int:
    short = frozenset(trimmed)
    return sum(
        TRIMMED_TO if isinstance(p, Outcome) and p.call in short else _length(p) for turn in turns for p in turn.parts
    )


def _length(part: Part) -> int:
    match part:
        case Text() | Thinking() | Outcome():
            return len(part.text)
        case Call():
            return len(part.arguments)
        case Media():
            return 4000


def transcript(turns: list[Turn], earlier: ContextCompacted | None) -> str:
    lines = [f"Earlier summary, to be updated:\n{earlier.summary}\n"] if earlier and earlier.summary else []
    skip = earlier.kept_from if earlier else 0
    for turn in turns[skip:]:
        for part in turn.parts:
            match part:
                case Text():
                    lines.append(f"[{turn.role}] {part.text}")
                case Call():
                    lines.append(f"[call] {part.tool} {part.arguments[:_QUOTED]}")
                case Outcome():
                    lines.append(f"[outcome {part.status}] {part.text[:_QUOTED]}")
                case Media():
                    lines.append(f"[{part.mime} {part.name or part.path or ''}]")
                case Thinking():
                    pass
    return "\n".join(lines)


def _mechanical(turns: list[Turn]) -> str:
    """When no model can summarise, what people said and what was called is still better than nothing."""
    said = [p.text[:500] for t in turns if t.role == "user" for p in t.parts if isinstance(p, Text)]
    called = [f"{p.tool} {p.arguments[:200]}" for t in turns for p in t.parts if isinstance(p, Call)]
    return "Messages:\n" + "\n".join(said[-20:]) + "\n\nCalls made:\n" + "\n".join(called[-60:])
