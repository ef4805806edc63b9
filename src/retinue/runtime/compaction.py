"""Makes room in a model's window: outputs are shortened first, then the past is summarised.

The log keeps everything. Calls and their outcomes are never separated, because
what is kept always begins with an assistant turn.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

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
_GROWTH = 0.1
"""Of the window: what must have come since the last compaction when what it left is already past the limit."""
_FRAME = 40
"""Characters of a wire format around each part."""
_ENOUGH = 0.8
"""Shortening outputs is enough when it leaves this much of the limit."""
_NOTHING = ContextCompacted(at=0, summary="", kept_from=0)


def settings(work: "Work") -> Compaction:
    return work.state.pin.definition.compaction or work.state.thread.inherited_compaction or Compaction()


def due(work: "Work", context: Context, request: Request, model: Model) -> bool:
    wanted, attempts = settings(work), work.state.attempts
    if wanted.off or attempts.compacted:
        return False
    if attempts.overflowed:
        return True
    side: SideName = work.state.run.active if work.state.run else "a"
    earlier = work.state.compacted.get(side, _NOTHING)
    if context.turns - earlier.kept_from < _FEWEST:
        return False
    limit = max(wanted.at * model.window, earlier.left + _GROWTH * model.window if earlier.left else 0)
    return _tokens(work, side, context, request) > limit


def _tokens(work: "Work", side: SideName, context: Context, request: Request) -> int:
    """What the request holds: as the provider counted the last one, where it did."""
    counted = work.state.context_tokens[side]
    added = int((len(request.turns[-1].data) + len(request.tail)) / BYTES_PER_TOKEN)
    return counted + added if counted else context.estimate(request)


async def compact(work: "Work", side: SideName, model: Model, context: Context, request: Request) -> None:
    """Record what the model is shown of the past from here on.

    Characters are turned into tokens at the rate of this very conversation, so that what
    is thought to be saved is what the provider will count.
    """
    await work.flush()
    perspective = Perspective(side)
    turns: list[Turn] = []
    for _, event in await read_log(work.runtime, work.thread):
        turns += perspective.feed(event)
    wanted, overflowed = settings(work), work.state.attempts.overflowed
    earlier = work.state.compacted.get(side, _NOTHING)
    shown, known = turns[earlier.kept_from :], frozenset(earlier.trimmed)
    tokens = _tokens(work, side, context, request)
    window = min(model.window, tokens) if overflowed else model.window
    fixed = len(request.head.data) / BYTES_PER_TOKEN
    rate = max(tokens - fixed, 1) / max(_size(shown, known) + len(earlier.summary), 1)
    tail = _tail(shown, wanted.keep * window / rate)
    if not overflowed and not any(turn.role == "assistant" for turn in shown[:tail]):
        tail = 0  # a summary of what was asked alone saves nothing
    trimmed = known.union(_trimmable(shown[:tail] or shown))
    left = fixed + rate * (_size(shown, trimmed) + len(earlier.summary))
    event = ContextCompacted(
        at=work.now,
        side=side,
        summary=earlier.summary,
        kept_from=earlier.kept_from,
        trimmed=tuple(sorted(trimmed)),
        left=int(left),
        cost=0,
    )
    if tail and (overflowed or left > _ENOUGH * wanted.at * window):
        told = transcript(shown[:tail], earlier.summary, most=int(_ENOUGH * window * BYTES_PER_TOKEN))
        said = await ask_hidden(work, "compaction", told, inherited=model.name)
        summary = said.text if said and said.text else _mechanical(shown[:tail], earlier.summary)
        event = replace(
            event,
            at=work.now,
            summary=summary,
            kept_from=earlier.kept_from + tail,
            left=int(fixed + rate * (_size(shown[tail:], trimmed) + len(summary))),
            usage=said.usage if said else Usage(),
            cost=said.cost if said else 0,
        )
    work.record(event)


def _tail(turns: list[Turn], room: float) -> int:
    """The first assistant turn of a tail that fits; the last exchange is always kept."""
    size, start = 0, len(turns)
    for index in range(len(turns) - 1, -1, -1):
        size += _size([turns[index]], frozenset())
        if size > room and start < len(turns):
            break
        if turns[index].role == "assistant":
            start = index
    return start if start < len(turns) else 0


def _trimmable(turns: list[Turn]) -> list[CallId]:
    return [p.call for t in turns for p in t.parts if isinstance(p, Outcome) and len(p.text) > TRIMMED_TO]


def _size(turns: list[Turn], trimmed: frozenset[CallId]) -> int:
    return sum(
        _FRAME + (min(_length(p), TRIMMED_TO) if isinstance(p, Outcome) and p.call in trimmed else _length(p))
        for turn in turns
        for p in turn.parts
    )


def _length(part: Part) -> int:
    match part:
        case Text() | Thinking() | Outcome():
            return len(part.text)
        case Call():
            return len(part.arguments)
        case Media():
            return 4000


def transcript(turns: list[Turn], earlier: str, *, most: int) -> str:
    """What the summariser reads; of a past longer than `most`, the middle is left out."""
    lines = [f"Earlier summary, to be updated:\n{earlier}\n"] if earlier else []
    for turn in turns:
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
    text = "\n".join(lines)
    if len(text) <= most:
        return text
    return f"{text[: most // 3]}\n\n(… {len(text) - most} characters left out …)\n\n{text[-(most - most // 3) :]}"


def _mechanical(turns: list[Turn], earlier: str) -> str:
    """When no model can summarise, what people said and what was called is still better than nothing."""
    said = [p.text[:500] for t in turns if t.role == "user" for p in t.parts if isinstance(p, Text)]
    called = [f"{p.tool} {p.arguments[:200]}" for t in turns for p in t.parts if isinstance(p, Call)]
    lines = ["Messages:", *said[-20:], "", "Calls made:", *called[-60:]]
    return "\n".join([earlier[:4000], *lines] if earlier else lines)
