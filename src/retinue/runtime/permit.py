"""Whether a call may run: rules, ceilings, grants and the taint gate, and the question when a person must say.

The judging itself is pure and lives in `retinue.policy`; this is where a thread's
own tiers are gathered and where `ask` becomes a parked call.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from retinue.policy import taint
from retinue.policy.calls import Authority, judge_call, judge_target
from retinue.policy.files import Place
from retinue.policy.filters import denied_outright as outright
from retinue.policy.patterns import matches
from retinue.policy.rules import Tier, call_digest, strictest
from retinue.policy.rulesets import agent_tiers, default_verdict
from retinue.ports.tool import Foreign, Inspection, Op, Result, Target, Tool, ToolContext
from retinue.runtime import environment, notify
from retinue.runtime.delegation_specs import delegates, starts_children
from retinue.runtime.inquiry import inquire
from retinue.runtime.state import CallState
from retinue.sandbox.targets import notable_matches, resolve
from retinue.schema.agent import ToolOverride
from retinue.schema.events.people import QuestionAsked
from retinue.schema.ids import Tenant, question_id
from retinue.schema.permission import Decision

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_HOME = os.path.expanduser("~")  # noqa: PTH111 - the text that rules write, not a path to open
_DENIES = frozenset(("deny",))
OWN_DATA = frozenset({"todo", "save_memory", "load_memory"})
"""Tools that touch nothing but the thread's and the agent's own data; no rule need allow them."""


def tiers(work: "Work") -> tuple[Tier, ...]:
    """Everybody who has a say: operator, user, project, the agent itself, and the callers' denies.

    Kept with the work, because tiers hold their patterns compiled.
    """
    if work.tiers is None:
        thread = work.state.thread
        ceiling = (Tier("session", thread.ceiling, counts=_DENIES),) if thread.ceiling else ()
        work.tiers = (*work.runtime.tiers, *agent_tiers(work.state.pin.definition), *ceiling)
    return work.tiers


def denied_outright(work: "Work", tool: str) -> bool:
    """No call of the tool could be anything but denied, so it is not offered.

    Delegation follows who may call whom, whatever the default: only a rule takes it away, its own or that of `task`.
    """
    if tool in OWN_DATA:
        return False
    if delegates(tool):
        names = (tool, "task") if starts_children(tool) else (tool,)
        return any(outright(name, tiers(work), "allow") for name in names)
    return outright(tool, tiers(work), default_verdict(work.state.pin.definition.permissions))


def authority(work: "Work") -> Authority:
    """Rules, grants and the workspace; kept with the work until one of them changes."""
    if work.authority is None:
        definition = work.state.pin.definition
        work.authority = Authority(
            tiers=tiers(work),
            fallback=default_verdict(definition.permissions),
            place=Place(
                workspace=work.state.thread.workspace,
                home=_HOME,
                own=(work.files,),
                protected=work.runtime.protected,
            ),
            grants=work.grants or (),
            thread=work.thread,
            definition_hash=definition.hash,
            hosts=work.runtime.hosts,
        )
    return work.authority


async def load_grants(work: "Work") -> bool:
    """Read what people have granted; only a call that would be asked needs it."""
    found = tuple(await work.runtime.grants.of(Tenant(work.state.thread.tenant), work.thread))
    if found != (work.grants or ()):
        work.authority = None
    work.grants = found
    return bool(found)


def context(
    work: "Work",
    state: CallState,
    override: ToolOverride,
    *,
    approved: tuple[Target, ...] = (),
) -> ToolContext:
    thread, live = work.state.thread, work.runtime.live
    judges, line = authority(work), notify.Line(work, state.call.id)
    return ToolContext(
        thread=work.thread,
        call=state.call.id,
        agent=work.state.pin.definition,
        workspace=thread.workspace,
        files=work.files,
        tenant=thread.tenant,
        override=override,
        sandbox=thread.sandbox,
        judge=lambda target: judge_target(judges, target, state.call.tool),
        approved=approved,
        taints=tuple(sorted(work.state.taints)),
        env=environment.variables(work),
        progress=lambda text: live.add(work.thread, "output", work.redact(text)),
        ask=None if thread.people == "none" else lambda inquiry: inquire(work, state, inquiry),
        notify_parent=line.notify_parent,
        set_status=line.set_status,
    )


async def refusal(
    work: "Work", state: CallState, tool: Tool, arguments: Mapping[str, object], inspection: Inspection | None
) -> Result | None:
    """None when the call may run or now waits for a person; else the outcome that says why not."""
    if tool.spec.name in OWN_DATA:
        return None
    decision = await _judge(work, state, tool, arguments, inspection)
    if decision.verdict == "deny":
        return Result(status="denied", text=f"Denied: {decision.reason}.")
    if inspection is not None and inspection.failure is not None:
        return inspection.failure
    if decision.verdict == "allow":
        return None
    files = tuple(t.path for t in inspection.targets if t.op != "fetch") if inspection else ()
    digest = _digest(work, state, tool, inspection)
    asked = question_id(state.call.id, f"permission:{digest}")
    if state.reply is not None and state.question is not None and state.question.id == asked:
        if state.reply.scope != "deny":
            return None
        why = f" They said: {state.reply.answer}" if isinstance(state.reply.answer, str) else ""
        return Result(status="denied", text=f"A person refused this call.{why} Do something else, or ask them.")
    if work.state.thread.people == "none":
        text = f"Denied: it needs a person's approval and nobody can be asked ({decision.reason})."
        return Result(status="denied", text=text)
    work.record(
        QuestionAsked(
            at=work.now,
            id=asked,
            call=state.call.id,
            kind="permission",
            prompt=f"{work.state.pin.definition.name} wants to use {tool.spec.name}: {tool.resource(arguments)}",
            tool=tool.spec.name,
            arguments=state.call.arguments,
            preview=inspection.preview or None if inspection else None,
            decision=decision,
            resources=files or (tool.resource(arguments),),
            digest=digest,
        )
    )
    return None


def _digest(work: "Work", state: CallState, tool: Tool, inspection: Inspection | None) -> str:
    """What an approval binds to: the call and the files it was seen to lead to. Another file is another question."""
    targets = inspection.targets if inspection else ()
    return call_digest(tool.spec.name, state.call.arguments, work.state.pin.definition.hash, targets)


def taints_of(work: "Work", tool: str, result: Result) -> set[str]:
    """Labels that a result puts on the thread: the tool's own word and the table's."""
    if result.status != "ok" or result.labelled:
        return set(result.taints)
    policy = taint.policy_of(work.state.pin.definition.taint)
    network = result.metadata.get("network") is True
    return {*result.taints, *(taint.labels(tool, policy, network=network) - {"sends"})}


async def _judge(
    work: "Work", state: CallState, tool: Tool, arguments: Mapping[str, object], inspection: Inspection | None
) -> Decision:
    """The strictest of the rules, the taint gate and a change of the tool. Grants answer the rules' ask alone."""
    name = tool.spec.name
    targets, folder = (inspection.targets, inspection.folder) if inspection else ((), "")
    resource = tool.resource(arguments)
    judge = partial(judge_call, targets=targets, cwd=folder, resolve=partial(_resolved, work), expand=notable_matches)
    decision = judge(authority(work), name, resource)
    if decision.verdict == "ask" and await load_grants(work):
        digest = _digest(work, state, tool, inspection)
        decision = judge(authority(work), name, resource, digest=digest)
    objections = [objection for objection in (_changed(tool), decision, _gated(work, tool)) if objection]
    return strictest(objections) or decision


def _gated(work: "Work", tool: Tool) -> Decision | None:
    if not work.state.taints:
        return None
    policy, foreign = taint.policy_of(work.state.pin.definition.taint), _foreign(tool)
    if foreign and foreign.confined and not any(matches(pattern, tool.spec.name) for pattern in policy.labels):
        return None
    return taint.gate(tool.spec.name, work.state.taints, policy, network=work.runtime.shell_network)


def _resolved(work: "Work", op: Op, path: str) -> Target:
    """A file that a command names, with its links followed."""
    return resolve(op, path, work.state.thread.workspace)


def _changed(tool: Tool) -> Decision | None:
    foreign = _foreign(tool)
    return Decision(verdict="ask", reason=foreign.changed) if foreign and foreign.changed else None


def _foreign(tool: Tool) -> Foreign | None:
    return tool if hasattr(tool, "confined") and isinstance(tool, Foreign) else None
