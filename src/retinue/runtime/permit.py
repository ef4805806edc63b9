"""Whether a call may run: rules, ceilings, grants and the taint gate, and the question when a person must say.

The judging itself is pure and lives in `retinue.policy`; this is where a thread's
own tiers are gathered and where `ask` becomes a parked call.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retinue.policy.filters import denied_outright as outright
from retinue.policy.rules import Tier, apply_grants, authorize, call_digest
from retinue.policy.rulesets import agent_tiers, default_verdict
from retinue.ports.tool import Inspection, Result, Target, Tool, ToolContext
from retinue.runtime import notify
from retinue.runtime.state import CallState
from retinue.schema.agent import ToolOverride
from retinue.schema.events.people import QuestionAsked
from retinue.schema.ids import Tenant, question_id
from retinue.schema.permission import Decision

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_DENIES = frozenset(("deny",))
READS_ITSELF = frozenset({"todo", "save_memory", "load_memory"})
"""Tools that touch nothing but the thread's own data and need no rule."""


def tiers(work: "Work") -> tuple[Tier, ...]:
    """Everybody who has a say: operator, user, project, the agent itself, and the callers' denies."""
    state = work.state
    ceiling = (Tier("session", state.thread.ceiling, counts=_DENIES),) if state.thread.ceiling else ()
    return (*work.runtime.tiers, *agent_tiers(state.pin.definition), *ceiling)


def denied_outright(work: "Work", tool: str) -> bool:
    """No call of the tool could be anything but denied, so it is not offered."""
    if tool in READS_ITSELF:
        return False
    return outright(tool, tiers(work), default_verdict(work.state.pin.definition.permissions))


def context(
    work: "Work", state: CallState, override: ToolOverride, *, approved: tuple[Target, ...] = ()
) -> ToolContext:
    thread, live = work.state.thread, work.runtime.live
    return ToolContext(
        thread=work.thread,
        call=state.call.id,
        agent=work.state.pin.definition,
        workspace=thread.workspace,
        files=str(work.runtime.files(work.thread)),
        tenant=thread.tenant,
        override=override,
        sandbox=thread.sandbox,
        judge=lambda target: judge_target(work, target),
        approved=approved,
        env=thread.env,
        progress=lambda text: live.add(work.thread, "output", text),
        notify_parent=lambda content: notify.notify_parent(work, content),
        set_status=lambda status: notify.set_status(work, status),
    )


def judge_target(work: "Work", target: Target) -> Decision:
    fallback = default_verdict(work.state.pin.definition.permissions)
    return authorize("read" if target.op == "read" else "edit", target.path, tiers(work), fallback=fallback)


async def refusal(
    work: "Work", state: CallState, tool: Tool, arguments: Mapping[str, object], inspection: Inspection | None
) -> Result | None:
    """None when the call may run or now waits for a person; else the outcome that says why not."""
    if tool.spec.name in READS_ITSELF:
        return None
    decision = await _judge(work, state, tool, arguments)
    if decision.verdict == "allow":
        return None
    if decision.verdict == "deny":
        return Result(status="denied", text=f"Denied: {decision.reason}.")
    if state.reply is not None and state.question is not None and state.question.kind == "permission":
        if state.reply.scope == "deny":
            why = f" They said: {state.reply.answer}" if isinstance(state.reply.answer, str) else ""
            return Result(status="denied", text=f"A person refused this call.{why} Do something else, or ask them.")
        return None
    if work.state.thread.people == "none":
        return Result(
            status="denied", text=f"Denied: it needs a person's approval and nobody can be asked ({decision.reason})."
        )
    work.record(
        QuestionAsked(
            at=work.now,
            id=question_id(state.call.id, "permission"),
            call=state.call.id,
            kind="permission",
            prompt=f"{work.state.pin.definition.name} wants to use {tool.spec.name}: {tool.resource(arguments)}",
            tool=tool.spec.name,
            arguments=state.call.arguments,
            preview=inspection.preview if inspection else None,
            decision=decision,
        )
    )
    return None


async def _judge(work: "Work", state: CallState, tool: Tool, arguments: Mapping[str, object]) -> Decision:
    definition, thread = work.state.pin.definition, work.state.thread
    resource = tool.resource(arguments)
    decision = authorize(tool.spec.name, resource, tiers(work), fallback=default_verdict(definition.permissions))
    if decision.verdict != "ask":
        return decision
    grants = await work.runtime.grants.of(Tenant(thread.tenant), work.thread)
    return apply_grants(
        decision,
        grants,
        tool=tool.spec.name,
        resource=resource,
        digest=call_digest(tool.spec.name, state.call.arguments, definition.hash),
        definition_hash=definition.hash,
        thread=work.thread,
    )
