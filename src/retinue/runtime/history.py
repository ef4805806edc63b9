"""Hooks on what a model is sent: they see the turns as the log gives them, and what they change is logged.

A request is rebuilt from the log without running a hook again, because the last
`history.changed` of a turn says what it holds.
"""

from typing import TypeVar

from retinue.runtime.hooks import HookKind, pass_through
from retinue.runtime.notify import HookContext
from retinue.runtime.perspective import Perspective, changes_of
from retinue.runtime.sides import side_definition
from retinue.runtime.work import Work, read_log
from retinue.schema.events.steps import HistoryChanged, HookFailed
from retinue.schema.message import Part, Turn
from retinue.schema.thread import SideName

T = TypeVar("T")


async def hooked(work: Work, ids: tuple[str, ...], kind: HookKind, value: T) -> T:
    """What a thread's hooks of one kind make of a value; failures are logged and change nothing."""
    hooks = work.runtime.hooks.named(ids, kind)
    if not hooks:
        return value
    value, _, failures = await pass_through(hooks, value, HookContext(work))
    for failure in failures:
        work.record(HookFailed(at=work.now, hook=failure.hook, error=failure.error))
    return value


async def filter_history(work: Work, side: SideName) -> None:
    """Send the side's turns through its history hooks; an agent without such hooks pays nothing."""
    ids = side_definition(work, side).hooks
    known = work.runtime.hooks
    hooks = (*known.named(ids, "filter_messages"), *known.named(ids, "prefilter_llm_history"))
    if not hooks:
        return
    await work.flush()
    log = [event for _, event in await read_log(work.runtime, work.thread)]
    perspective = Perspective(side)
    raw = [turn for event in log for turn in perspective.feed(event)] + [*perspective.open_turns()]
    wanted, changed_by, failures = await pass_through(hooks, tuple(raw), HookContext(work))
    for failure in failures:
        work.record(HookFailed(at=work.now, hook=failure.hook, error=failure.error))
    if [t.role for t in wanted] != [t.role for t in raw] or not all(t.parts for t in wanted):
        error = "a history hook may change what turns hold, not add, remove or empty them"
        work.record(HookFailed(at=work.now, hook=", ".join(changed_by), error=error))
        return
    _record(work, side, raw, wanted, ", ".join(changed_by) or hooks[0].id, changes_of(log, side))


def _record(
    work: Work,
    side: SideName,
    raw: list[Turn],
    wanted: tuple[Turn, ...],
    hook: str,
    held: dict[int, tuple[Part, ...]],
) -> None:
    for index, (before, after) in enumerate(zip(raw, wanted, strict=True)):
        if held.get(index, before.parts) != after.parts:
            work.record(HistoryChanged(at=work.now, hook=hook, side=side, turn=index, parts=after.parts))
