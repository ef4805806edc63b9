"""Settles the calls of a step: every call gets exactly one outcome.

Calls are taken in order, in groups: neighbours that only read, or only start
children, go at once; a write is a barrier; a completion or binding is one too, and
what comes after it is skipped. Outcomes are recorded as they come.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from retinue.ports.tool import Inspection, Inspects, Rejected, Result, Tool, ToolContext
from retinue.runtime import children, notify, permit, questions
from retinue.runtime.completion import ALIAS, COMPLETE, NAMES, with_default_status
from retinue.runtime.flight import Aborted
from retinue.runtime.history import hooked
from retinue.runtime.hooks import HookKind
from retinue.runtime.offer import tools_for
from retinue.runtime.sides import side_definition
from retinue.runtime.state import CallState
from retinue.runtime.stops import side_of
from retinue.runtime.system_tools import SystemTool
from retinue.runtime.work import Work
from retinue.schema.agent import ToolOverride
from retinue.schema.events.people import TaintMarked
from retinue.schema.events.steps import CallSettled, CallStarted
from retinue.schema.message import Outcome, OutcomeStatus
from retinue.schema.thread import SideName

log = logging.getLogger("retinue.calls")
_TURNS, _ENDS, _FAILS = 1, 2, 3
AnyTool = Tool | SystemTool
_NO_OVERRIDE = ToolOverride()
Inspect = Callable[[Mapping[str, object], ToolContext], Awaitable[Inspection]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that may run now."""

    state: CallState
    tool: AnyTool
    arguments: Mapping[str, object]
    inspection: Inspection | None = None


async def settle_calls(work: Work) -> bool:
    """Move the open calls on as far as they go; False when all that is left must wait."""
    before = work.state.head
    side: SideName = work.state.answer.side if work.state.answer else "a"
    tools = work.offers.get(side) or await tools_for(work, side)
    if work.state.questions:
        questions.expire(work)
    if work.state.children or work.state.variables:
        children.expire(work)
    ranks = _ranks(work, side)
    while group := _next_group(work, tools, ranks):
        ready = [r for state in group if (r := await _prepare(work, state, tools)) is not None]
        if ready:
            await _run_all(work, ready)
        if any(state.outcome is None for state in group):
            break
    return work.state.head > before


def _next_group(work: Work, tools: Mapping[str, AnyTool], ranks: Mapping[str, int]) -> list[CallState]:
    """The open calls at the front that may go together; once one of them ends something, only what outranks it runs."""
    ended = 0
    group: list[CallState] = []
    for state in work.state.calls.values():
        name = COMPLETE if state.call.tool == ALIAS else state.call.tool
        rank = ranks.get(name, _ENDS if name.startswith("handoff_") else 0)
        if state.outcome is not None:
            ended = max(ended, rank) if state.outcome.status == "ok" else ended
            if group:
                break
            continue
        if ended and rank <= ended:
            _skip(work, state, name)
            continue
        if rank or not _together(tools.get(name)):
            return group or [state]
        group.append(state)
    return group


def _ranks(work: Work, side: SideName) -> dict[str, int]:
    """Calls that end something, and which of them outranks which: S4's order, and fail beats stop."""
    config = side_of(work.state, side)
    ranks = {config.stop_tool: _TURNS} if config.stop_tool else {}
    ranks |= dict.fromkeys(NAMES, _ENDS)
    ranks |= {config.session_stop.name: _ENDS} if config.session_stop else {}
    return ranks | ({config.session_fail.name: _FAILS} if config.session_fail else {})


def _together(tool: AnyTool | None) -> bool:
    return tool is None or tool.spec.effect == "read" or (isinstance(tool, SystemTool) and tool.starts_child)


def _skip(work: Work, state: CallState, name: str) -> None:
    if name in NAMES:
        _settle(work, state, Result(status="error", text="The run is already completed; one completion counts."))
    else:
        _settle(work, state, Result(status="skipped", text="Skipped: the run ended before this call."))


async def _prepare(work: Work, state: CallState, tools: Mapping[str, AnyTool]) -> Ready | None:
    """Check, judge and ask; None when the call is settled already or has to wait."""
    if state.waits:
        return None
    name = COMPLETE if state.call.tool == ALIAS else state.call.tool
    tool = tools.get(name)
    if tool is None:
        _settle(work, state, _unknown(name, tools))
        return None
    override = work.state.pin.definition.tool_overrides.get(name, _NO_OVERRIDE)
    arguments = work.runtime.check(with_default_status(state.call.tool, state.call.arguments), tool.spec, override)
    if isinstance(arguments, Rejected):
        _settle(work, state, Result(status="error", text=arguments.message))
        return None
    if isinstance(tool, SystemTool):
        return Ready(state=state, tool=tool, arguments=arguments)
    if not questions.loop_may_go_on(work, state):
        return None
    inspect = inspection_of(tool)
    inspection = await inspect(arguments, permit.context(work, state, override)) if inspect else None
    refusal = await permit.refusal(work, state, tool, arguments, inspection)
    if refusal is not None:
        _settle(work, state, refusal)
        return None
    return None if state.waits else Ready(state=state, tool=tool, arguments=arguments, inspection=inspection)


def inspection_of(tool: Tool) -> Inspect | None:
    """The look that some tools take before they run; a look at the attribute is much cheaper than at the protocol."""
    return tool.inspect if hasattr(tool, "inspect") and isinstance(tool, Inspects) else None


def _unknown(name: str, tools: Mapping[str, AnyTool]) -> Result:
    near = get_close_matches(name, tools, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    return Result(status="error", text=f"There is no tool `{name}` here.{hint} You have: {', '.join(sorted(tools))}.")


async def _run_all(work: Work, ready: list[Ready]) -> None:
    effects = [item for item in ready if not isinstance(item.tool, SystemTool)]
    if len(effects) < len(ready):
        await work.flush()
    for item in ready:
        if isinstance(item.tool, SystemTool):
            result = await item.tool.settle(work, item.state, item.arguments)
            if result is not None:
                await _finish(work, item.state, result, 0.0)
    if not effects:
        return
    for item in effects:
        if item.tool.spec.effect == "write":
            work.record(CallStarted(at=work.now, call=item.state.call.id))
    await work.flush()
    run = work.state.run
    left = max(run.started.timeout - work.spent(), 1.0) if run else 60.0
    work.runtime.live.begin(work.thread, work.state.answer_seq, 1)  # so that who watches sees what the calls print
    try:
        with work.flight.bounded(left):
            if len(effects) == 1:
                await _run_one(work, effects[0])
            else:
                await asyncio.gather(*(_run_one(work, item) for item in effects))
    except (TimeoutError, Aborted) as stopped:
        await _cut(work, effects, stopped)
    finally:
        work.runtime.live.end(work.thread)


async def _cut(work: Work, effects: list[Ready], stopped: TimeoutError | Aborted) -> None:
    """Work was ended from outside. A write may have happened; a read simply runs again on resume."""
    for item in effects:
        if item.state.outcome is not None or (isinstance(stopped, Aborted) and item.tool.spec.effect != "write"):
            continue
        status: OutcomeStatus = "interrupted" if isinstance(stopped, Aborted) else "timed_out"
        text = "Cut off while it ran; it may have had effects." if status == "interrupted" else "The run's time is up."
        _settle(work, item.state, Result(status=status, text=text))
    await work.flush()


async def _run_one(work: Work, item: Ready) -> None:
    tool, state = item.tool, item.state
    assert not isinstance(tool, SystemTool)
    override = work.state.pin.definition.tool_overrides.get(tool.spec.name, _NO_OVERRIDE)
    approved = item.inspection.targets if item.inspection else ()
    context = permit.context(work, state, override, approved=approved)
    started = work.runtime.clock.monotonic()
    try:
        if override.timeout is None:
            result = await tool.run(item.arguments, context)
        else:
            async with asyncio.timeout(override.timeout):
                result = await tool.run(item.arguments, context)
    except TimeoutError:
        result = Result(status="timed_out", text=f"`{tool.spec.name}` did not finish in {override.timeout or 0:g} s.")
    except Exception:
        log.exception("tool %s failed in thread %s", tool.spec.name, work.thread)
        result = Result(status="error", text=f"`{tool.spec.name}` failed unexpectedly. The details are in the log.")
    result = work.runtime.bound(result, context)
    await _finish(work, state, result, work.runtime.clock.monotonic() - started)
    if work.state.open_calls:
        await work.flush()


async def _finish(work: Work, state: CallState, result: Result, duration: float) -> None:
    side: SideName = work.state.answer.side if work.state.answer else "a"
    ids = side_definition(work, side).hooks
    if ids:
        result = await hooked(work, ids, "before_store_tool_result", result)
        kind: HookKind = "after_tool_call_success" if result.status == "ok" else "after_tool_call_failure"
        result = await hooked(work, ids, kind, result)
    for label in _taints(work, state.call.tool, result):
        if label in ("private", "untrusted") and label not in work.state.taints:
            work.record(TaintMarked(at=work.now, label=label, origin=state.call.tool))
    if result.metadata.get("tools") == "changed":
        work.regather()
    if result.status == "ok":
        notify.by_binding(work, state)
    _settle(work, state, result, duration)


def _taints(work: Work, tool: str, result: Result) -> Collection[str]:
    """Of a plain result what the tables say, which is looked up once for each tool."""
    if result.metadata or result.taints or result.labelled or result.status != "ok":
        return permit.taints_of(work, tool, result)
    if tool not in work.labels:
        work.labels[tool] = permit.taints_of(work, tool, result)
    return work.labels[tool]


def _settle(work: Work, state: CallState, result: Result, duration: float = 0.0) -> None:
    outcome = Outcome(
        call=state.call.id,
        tool=state.call.tool,
        status=result.status,
        text=work.redact(result.text),
        media=result.media,
        metadata=result.metadata,
    )
    work.record(CallSettled(at=work.now, outcome=outcome, duration=round(duration, 4)))
