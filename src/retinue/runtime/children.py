"""Children: one way to start them, whatever tool asked for it, and what they report back.

A child's id derives from our call's, so recovery finds it and never starts it
twice. Starting is one commit with the parent's event; so is a child's report with
the end of its own run.
"""

import sys
from collections.abc import Mapping
from typing import Literal

import msgspec

from retinue.ports.store import Caps, InboxEntry, NewThread
from retinue.ports.tool import Result
from retinue.runtime import attachments, environment, ledger
from retinue.runtime.history import hooked
from retinue.runtime.sides import candidates
from retinue.runtime.state import CallState, ChildState
from retinue.runtime.stops import plain
from retinue.runtime.work import Work
from retinue.schema import inbox
from retinue.schema.agent import Budget, SandboxMode, Subagent
from retinue.schema.completion import Completion
from retinue.schema.events.children import ChildMessaged, ChildReported, ChildStarted
from retinue.schema.events.people import TaintMarked
from retinue.schema.events.runs import MessageReceived
from retinue.schema.events.steps import CallSettled
from retinue.schema.events.threads import Ancestor, Pin, ThreadStarted
from retinue.schema.events.union import AnyEvent, encode
from retinue.schema.ids import CallId, MessageId, Tenant, ThreadId, child_id
from retinue.schema.message import Outcome, Part, Text
from retinue.schema.thread import SideName

RESULT = "Subagent (reference: {reference}) has returned the following result:\n\n{text}"
FAILURE = "Subagent (reference: {reference}) has reported a failure:\n\n{text}"
_STOPS = frozenset({"aborted", "terminated"})
_LABELS: tuple[Literal["private", "untrusted"], ...] = ("private", "untrusted")


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What starting a child needs beside whom; the delegation tools only differ in how they fill it."""

    text: str
    call: CallId = CallId("")
    name: str = ""
    """The agent's own when empty."""
    title: str | None = None
    description: str = ""
    inputs: Mapping[str, object] = {}
    attachments: tuple[str, ...] = ()
    config: Subagent | None = None
    blocking: bool = True
    immediate: bool = False


def refused(work: Work, pin: Pin, config: Subagent | None) -> str | None:
    """Why the child can't be started: depth, a cycle, or too many instances; the path is shown."""
    path = [*(a.agent for a in work.state.thread.path), work.state.pin.definition.id]
    shown = " → ".join([*path, pin.definition.id])
    if pin.definition.id in path:
        return f"{shown} is a cycle: an agent can't be started below itself. Do the work here or call another agent."
    tuning = work.runtime.tuning
    depth = min(depth_limit(work) or tuning.max_depth, tuning.most_depth or sys.maxsize)
    if len(path) > depth:
        return f"{shown} is deeper than {depth}, the limit. Do the work here."
    cap = config.resumable.max_instances if config and config.resumable else pin.definition.max_instances
    alive = [c for c in work.state.children.values() if c.started.agent == pin.definition.id and _alive(c)]
    if cap is not None and len(alive) >= cap:
        known = ", ".join(f"{c.started.name} ({c.started.reference})" for c in alive)
        return f"There are {cap} instances of {pin.definition.id} already, the limit. Message an existing one: {known}."
    return None


def depth_limit(work: Work) -> int | None:
    """The smallest limit that the start of the tree, a caller or the agent itself has set."""
    limits = (work.state.thread.max_depth, work.state.pin.definition.max_depth)
    return min((limit for limit in limits if limit is not None), default=None)


def _alive(child: ChildState) -> bool:
    return child.status != "terminated" and (child.started.resumable or not child.done)


def _runs(child: ChildState) -> bool:
    return not child.done and child.status not in ("queued", "terminated")


async def start(work: Work, pin: Pin, wanted: Start, env: Mapping[str, str]) -> ThreadId:
    """Stage the child and the parent's event about it; both become durable in one commit.

    Args:
        env: Scoped variables for this child alone, sealed.
    """
    reference, now = child_id(wanted.call), work.now
    wanted = msgspec.structs.replace(wanted, name=wanted.name or pin.definition.name)
    running = sum(map(_runs, work.state.children.values()))
    queued = running >= work.runtime.tuning.children_at_once
    files, copied = attachments.send(work, wanted.attachments, reference)
    events: list[AnyEvent] = [_thread_started(work, pin, wanted, env, reference)]
    events += [TaintMarked(at=now, label=label, origin="caller") for label in _LABELS if label in work.state.taints]
    said = inbox.Message(
        parts=(Text(text=wanted.text + attachments.listed(copied)),),
        sender=work.thread,
        inputs=wanted.inputs,
        files=tuple(files),
    )
    budget = pin.definition.budget
    work.spawn(
        NewThread(
            id=reference,
            tenant=Tenant(work.state.thread.tenant),
            root=work.state.thread.path[0].thread if work.state.thread.path else work.thread,
            parent=work.thread,
            agent=pin.definition.id,
            created_at=now,
            events=tuple(encode(e) for e in events),
            inbox=(InboxEntry(id=f"{wanted.call}:first", kind="message", data=msgspec.json.encode(said), at=now),),
            caps=Caps(cost=budget.cost, tokens=budget.tokens),
            title=wanted.title,
            runnable=not queued,
        )
    )
    config = wanted.config.resumable if wanted.config else None
    work.record(
        ChildStarted(
            at=now,
            reference=reference,
            call=wanted.call,
            agent=pin.definition.id,
            name=wanted.name,
            title=wanted.title,
            description=wanted.description or pin.definition.description,
            resumable=config is not None,
            blocking=wanted.blocking,
            spawn_group=f"{work.thread}:{work.state.answer_seq}",
            explicit_communication=config is not None and config.parent_communication == "explicit",
            commit=pin.commit,
            receives_messages=config.receives_messages if config else "side_a",
            immediate=wanted.immediate,
            queued=queued,
        )
    )
    await hooked(work, work.state.pin.definition.hooks, "after_subagent_created", reference)
    return reference


def _thread_started(work: Work, pin: Pin, wanted: Start, env: Mapping[str, str], reference: ThreadId) -> ThreadStarted:
    thread, own = work.state.thread, work.state.pin.definition
    return ThreadStarted(
        at=work.now,
        thread=reference,
        pin=pin,
        path=(*thread.path, Ancestor(thread=work.thread, agent=own.id)),
        call=wanted.call,
        workspace=thread.workspace,
        people=thread.people,
        tenant=thread.tenant,
        project=thread.project,
        name=wanted.name,
        title=wanted.title,
        description=wanted.description,
        inherited_model=candidates(work, "a")[0].model.name,
        inherited_compaction=own.compaction or thread.inherited_compaction,
        ceiling=thread.ceiling,
        read_only=thread.read_only or own.execution_mode == "planning",
        sandbox=_stricter(thread.sandbox, pin.definition.sandbox),
        budget=pin.definition.budget,
        capped=thread.capped or pin.definition.budget != Budget(),
        cost_capped=ledger.cost_capped(thread) or pin.definition.budget.cost is not None,
        max_depth=depth_limit(work),
        env={**environment.inherited(work, wanted.config), **env},
        scoped_env=tuple(env),
    )


def _stricter(one: str, other: str) -> SandboxMode:
    return "require" if "require" in (one, other) else "off" if one == "off" == other else "auto"


def running(reference: ThreadId) -> Result:
    return Result(text=msgspec.json.encode({"reference": reference, "status": "running"}).decode())


def message(
    work: Work, call: CallId, child: ChildState, text: str, paths: tuple[str, ...], *, blocking: bool
) -> Result | None:
    """Speak to a child again; with `blocking` the call waits for its next completion."""
    reference = child.started.reference
    if child.status == "terminated":
        return Result(status="error", text="That instance is terminated and takes no messages; create another one.")
    files, copied = attachments.send(work, paths, reference)
    parts: tuple[Part, ...] = (Text(text=text + attachments.listed(copied)),)
    side: SideName = "a" if child.started.receives_messages == "side_b" else "b"
    said = inbox.Message(parts=parts, side=side, sender=work.thread, files=tuple(files))
    entry = InboxEntry(id=f"{call}:message", kind="message", data=msgspec.json.encode(said), at=work.now)
    work.send(reference, entry)
    work.record(ChildMessaged(at=work.now, reference=reference, call=call, blocking=blocking))
    return None if blocking else running(reference)


async def report(work: Work, report: inbox.ChildReport, id: str) -> None:
    """A child's words reach the log: its end settles the call that waits, or is queued as a silent message."""
    child = work.state.children.get(report.child)
    if child is None:
        return
    for label in _LABELS:
        if label in report.taints and label not in work.state.taints:
            work.record(TaintMarked(at=work.now, label=label, origin=f"child {child.started.name}"))
    match report.kind:
        case "status":
            work.record(ChildReported(at=work.now, reference=report.child, status=report.text, words=True))
        case "notice":
            say(work, id, report.text, report.child)
        case "terminated":
            work.record(ChildReported(at=work.now, reference=report.child, status="terminated"))
            _settle_waiting(work, report.child, Result(status="cancelled", text="The child was terminated."))
        case "completed":
            if report.completion is not None:
                _completed(work, child, report, report.completion, id)
    start_queued(work)


def _completed(work: Work, child: ChildState, report: inbox.ChildReport, completion: Completion, id: str) -> None:
    files, paths = attachments.receive(work, report.attachments, report.child)
    work.record(*files)
    given = child.started
    failed = completion.status == "FAILED"
    status = "idle" if given.resumable else "failed" if failed else "completed"
    work.record(
        ChildReported(
            at=work.now,
            reference=report.child,
            status=status,
            result={"status": completion.status, "reason": completion.reason},
            usage=completion.usage,
            cost=completion.cost,
            attachments=paths,
        )
    )
    result = Result(text=envelope(child, completion, paths), status="error" if failed else "ok")
    if _settle_waiting(work, report.child, result):
        return
    if given.explicit_communication or _stopped_from_here(work, child, completion):
        return
    text = completion.error if failed and completion.error else plain(completion.result)
    template = FAILURE if failed else RESULT
    say(work, id, template.format(reference=report.child, text=text) + attachments.listed(paths), report.child)


def _stopped_from_here(work: Work, child: ChildState, completion: Completion) -> bool:
    """Whether the child ended because its caller did: words about it would start the caller anew."""
    return completion.reason in _STOPS and (_was_stopped(work) or child.started.blocking)


def _was_stopped(work: Work) -> bool:
    """The last run was cancelled, and with it every child that had something to do."""
    run = work.state.run
    return run is not None and run.completion is not None and run.completion.reason in _STOPS


def envelope(child: ChildState, completion: Completion, paths: tuple[str, ...]) -> str:
    """S0's tool result."""
    value: dict[str, object] = {
        "success": completion.status != "FAILED",
        "result": completion.result if completion.status != "FAILED" else completion.error or completion.result,
        "reference": child.started.reference,
        "metadata": {
            **completion.metadata,
            "status": completion.status,
            "confidence": completion.confidence,
            "requiresFollowup": completion.requires_followup,
            "reason": completion.reason,
            "agentSource": child.started.agent,
            "gitCommit": child.started.commit,
            "executionTime": completion.duration,
            "cost": None if completion.cost is None else completion.cost / 1e9,
        },
        **({"attachments": paths} if paths else {}),
    }
    return msgspec.json.encode(value).decode()


def expire(work: Work) -> None:
    """The time is up while children or variables are waited for: children are cancelled, the calls settled."""
    run = work.state.run
    for state in work.state.open_calls:
        if state.variables is not None and state.variables.expires <= work.now:
            _settle(work, state, Result(status="timed_out", text="Nobody gave the variables in time."))
    if run is None or work.spent() < run.started.timeout:
        return
    stop = msgspec.json.encode(inbox.Control(by="caller", reason="The caller's time is up."))
    late = Result(status="timed_out", text="The time for this run is up; the child was cancelled.")
    for state in work.state.open_calls:
        if state.child is not None:
            id = f"{work.thread}:cancel:{work.state.head}"
            work.send(state.child, InboxEntry(id=id, kind="cancel", data=stop, at=work.now))
            _settle(work, state, late)


def start_queued(work: Work) -> None:
    """The oldest children that wait for a slot go, as many as there are slots; none while the caller is stopped."""
    if work.state.status == "interrupted" or _was_stopped(work):
        return
    children = work.state.children.values()
    running = sum(map(_runs, children))
    for child in children:
        if running >= work.runtime.tuning.children_at_once:
            return
        if child.status == "queued":
            reference = child.started.reference
            work.send(reference, InboxEntry(id=f"{reference}:go", kind="nudge", at=work.now))
            work.record(ChildReported(at=work.now, reference=reference, status="running"))
            running += 1


def _settle_waiting(work: Work, reference: ThreadId, result: Result) -> bool:
    """Two messages may have joined one run of the child: its end answers both."""
    waiting = [c for c in work.state.open_calls if c.child == reference]
    for state in waiting:
        _settle(work, state, result)
    return bool(waiting)


def _settle(work: Work, state: CallState, result: Result) -> None:
    outcome = Outcome(call=state.call.id, tool=state.call.tool, status=result.status, text=result.text)
    work.record(CallSettled(at=work.now, outcome=outcome))


def say(work: Work, id: str, text: str, sender: ThreadId | None = None) -> None:
    """Queue a silent message for the model."""
    work.record(MessageReceived(at=work.now, id=MessageId(id), parts=(Text(text=text),), silent=True, sender=sender))
