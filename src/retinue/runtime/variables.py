"""Scoped variables that a child needs before it can start (S4 §7.8): names in the log, values sealed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import msgspec

from retinue.ports.tool import Result
from retinue.runtime import children, environment
from retinue.runtime.state import State
from retinue.schema import inbox
from retinue.schema.agent import Subagent
from retinue.schema.errors import Conflict, Gone, NotFound, RetinueError
from retinue.schema.events.children import VariablesProvided, VariablesRequested
from retinue.schema.events.steps import CallSettled
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import Seq
from retinue.schema.message import Outcome

if TYPE_CHECKING:
    from retinue.runtime.work import Work


class _Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What the deferred child is started with, once its variables are there."""

    agent: str
    text: str
    name: str
    title: str | None = None
    description: str = ""
    attachments: tuple[str, ...] = ()
    inputs: Mapping[str, object] = {}
    config: Subagent | None = None
    blocking: bool = True


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


def required(wanted: children.Start) -> tuple[str, ...]:
    """Scoped names of the tool's configuration, and what the child declares without a value."""
    config = wanted.config
    scoped = config.immediate.scoped_env if config and config.immediate else ()
    declared = tuple(name for name, value in wanted.pin.definition.env.items() if value == "")
    return tuple(dict.fromkeys((*scoped, *declared)))


def missing(work: "Work", wanted: children.Start) -> tuple[str, ...]:
    return tuple(n for n in required(wanted) if n not in wanted.env and environment.resolve(work, n) is None)


def scoped(work: "Work", wanted: children.Start) -> dict[str, str]:
    """Sealed values for the child alone."""
    return {n: work.runtime.seal(v) for n in required(wanted) if (v := environment.resolve(work, n)) is not None}


def request(work: "Work", wanted: children.Start, names: tuple[str, ...]) -> Result | None:
    """Defer the child. A blocking call waits with it; another is told at once."""
    id = str(uuid5(UUID(wanted.call), "variables"))
    if work.state.thread.people == "none":
        return Result(status="error", text=_error(id, names))
    payload = _Payload(
        agent=wanted.pin.definition.id,
        text=wanted.text,
        name=wanted.name,
        title=wanted.title,
        description=wanted.description,
        attachments=wanted.attachments,
        inputs=wanted.inputs,
        config=wanted.config,
        blocking=wanted.blocking,
    )
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
            payload=msgspec.to_builtins(payload),
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
        wanted = _deferred(work, asked, held)
        if why := children.refused(work, wanted.pin, wanted.config):
            raise Conflict(why)
        await children.start(work, wanted)
    except RetinueError as error:
        state = work.state.calls.get(asked.call)
        if state is None or state.outcome is not None:
            children.say(work, f"{asked.call}:deferred", f"The subagent could not be started: {error.message}")
            return
        outcome = Outcome(call=asked.call, tool=state.call.tool, status="error", text=error.message)
        work.record(CallSettled(at=work.now, outcome=outcome))


def _deferred(work: "Work", asked: VariablesRequested, env: dict[str, str]) -> children.Start:
    """The start that was put off. Nothing waits for the child when its call was answered meanwhile."""
    payload = msgspec.convert(dict(asked.payload), _Payload)
    wanted = children.Start(
        pin=work.runtime.agents.pin(payload.agent, work.state.thread.tenant),
        text=payload.text,
        call=asked.call,
        name=payload.name,
        title=payload.title,
        description=payload.description,
        inputs=payload.inputs,
        attachments=payload.attachments,
        config=payload.config,
        blocking=payload.blocking and (asked.immediate or asked.call in work.state.calls),
        immediate=asked.immediate,
    )
    return replace(wanted, env={**scoped(work, wanted), **env})
