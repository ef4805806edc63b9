"""Scoped variables that a child needs before it can start (S4 §7.8): names in the log, values sealed."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from retinue.ports.tool import Result
from retinue.runtime import children, environment
from retinue.runtime.state import State
from retinue.schema import inbox
from retinue.schema.agent import Subagent
from retinue.schema.errors import Conflict, Gone, NotFound, RetinueError
from retinue.schema.events.children import VariablesProvided, VariablesRequested
from retinue.schema.events.steps import CallSettled
from retinue.schema.events.threads import Pin
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import Seq
from retinue.schema.message import Outcome

if TYPE_CHECKING:
    from retinue.runtime.work import Work


class VariablesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Names, never values."""

    required: tuple[str, ...]
    missing: tuple[str, ...]


def variables_status(state: State, log: list[tuple[Seq, AnyEvent]], request: str, now: float) -> VariablesStatus:
    """What a request for variables still misses; see `Engine.variables` for what it raises."""
    asked = next((e for _, e in log if isinstance(e, VariablesRequested) and e.request == request), None)
    if asked is None:
        raise NotFound(f"this thread has no request {request} for variables")
    if request not in state.variables or asked.expires <= now:
        raise Gone(f"the request {request} is settled or expired")
    held = state.held.get(request, {})
    return VariablesStatus(required=asked.names, missing=tuple(n for n in asked.names if n not in held))


async def begin(work: "Work", pin: Pin, wanted: children.Start) -> Result | None:
    """Start a child now, or put it off until its variables are there. None when the call waits for it.

    Raises:
        Conflict: depth, a cycle or too many instances.
    """
    if why := children.refused(work, pin, wanted.config):
        raise Conflict(why)
    if names := missing(work, pin, wanted.config):
        return _defer(work, pin, wanted, names)
    reference = await children.start(work, pin, wanted, _scoped(work, pin, wanted.config))
    return None if wanted.blocking else children.running(reference)


def missing(work: "Work", pin: Pin, config: Subagent | None) -> tuple[str, ...]:
    return tuple(name for name in _required(work, pin, config) if environment.resolve(work, name) is None)


def _required(work: "Work", pin: Pin, config: Subagent | None, above: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Scoped names of the tool's configuration, what the child declares without a value, and what must be there
    for the children that start with it."""
    names = [*(config.immediate.scoped_env if config and config.immediate else ())]
    names += [name for name, value in pin.definition.env.items() if value == ""]
    for inner in environment.configured(pin.definition):
        if inner.immediate and inner.name not in above and environment.enabled(work, inner.optional):
            with suppress(RetinueError):  # it can't be started anyway, and says so then
                below = work.runtime.agents.pin(inner.name, work.state.thread.tenant)
                names += _required(work, below, inner, (*above, inner.name))
    return tuple(dict.fromkeys(names))


def _scoped(work: "Work", pin: Pin, config: Subagent | None) -> dict[str, str]:
    """Sealed values for the child alone."""
    known = {name: environment.resolve(work, name) for name in _required(work, pin, config)}
    return {name: work.runtime.seal(value) for name, value in known.items() if value is not None}


def _defer(work: "Work", pin: Pin, wanted: children.Start, names: tuple[str, ...]) -> Result | None:
    """A blocking call waits with the child; another is told at once."""
    id = str(uuid5(UUID(wanted.call), "variables"))
    if work.state.thread.people == "none":
        return Result(status="error", text=_error(id, names))
    answered = not wanted.blocking
    work.record(
        VariablesRequested(
            at=work.now,
            request=id,
            call=wanted.call,
            names=names,
            expires=work.now + work.runtime.tuning.variables_expire,
            answered=answered,
            immediate=wanted.immediate,
            payload={"agent": pin.definition.id, **msgspec.to_builtins(wanted)},
        )
    )
    return Result(status="error", text=_error(id, names)) if answered else None


def _error(id: str, names: tuple[str, ...]) -> str:
    return msgspec.json.encode({"error": "subagent_env_required", "request_id": id, "missing": names}).decode()


async def provide(work: "Work", given: inbox.Variables) -> None:
    """Values arrived (sealed): with the last one the deferred child starts with its original payload."""
    asked = work.state.variables.get(given.request)
    if asked is None or asked.expires <= work.now:
        return
    held = {**work.state.held.get(given.request, {}), **given.values}
    complete = set(asked.names) <= held.keys()
    work.record(
        VariablesProvided(
            at=work.now,
            request=given.request,
            names=tuple(sorted(given.values)),
            values=given.values,
            complete=complete,
        )
    )
    if not complete:
        return
    try:
        await _boot(work, asked, held)
    except RetinueError as error:
        state = work.state.calls.get(asked.call)
        if state is None or state.outcome is not None:
            children.say(work, f"{asked.call}:deferred", f"The subagent could not be started: {error.message}")
            return
        outcome = Outcome(call=asked.call, tool=state.call.tool, status="error", text=error.message)
        work.record(CallSettled(at=work.now, outcome=outcome))


async def _boot(work: "Work", asked: VariablesRequested, given: Mapping[str, str]) -> None:
    """The start that was put off. Nothing waits for the child when its call was answered meanwhile."""
    pin = work.runtime.agents.pin(str(asked.payload["agent"]), work.state.thread.tenant)
    wanted = msgspec.convert(dict(asked.payload), children.Start)
    waits = wanted.blocking and (asked.immediate or asked.call in work.state.calls)
    wanted = replace(wanted, call=asked.call, blocking=waits, immediate=asked.immediate)
    if why := children.refused(work, pin, wanted.config):
        raise Conflict(why)
    await children.start(work, pin, wanted, {**_scoped(work, pin, wanted.config), **given})
