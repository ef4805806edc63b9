"""Permissions as surfaces ask about them: why a call would be allowed or not, and what people have approved.

The judging is `retinue.policy`; here it gets an agent's rules, the settings' tiers
and the user's grants, as a thread in this workspace would.
"""

import os
from functools import partial
from pathlib import Path

from retinue.app.retinue import Retinue
from retinue.app.threads import read_log
from retinue.app.views import resource_of
from retinue.definition.toolnames import canonical
from retinue.policy.calls import Authority, judge_call
from retinue.policy.files import Place
from retinue.policy.filters import offered
from retinue.policy.rulesets import agent_tiers, default_verdict
from retinue.policy.suggest import Approved
from retinue.ports.tool import Op
from retinue.sandbox.targets import notable_matches, resolve
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import UsageError
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.threads import SegmentStarted, ThreadStarted
from retinue.schema.ids import DEFAULT_TENANT, QuestionId, Tenant, ThreadId
from retinue.schema.permission import Decision

_FILES: dict[str, Op] = {
    **dict.fromkeys(("read", "glob", "grep", "list"), "read"),
    **dict.fromkeys(("write", "edit", "multi_edit"), "write"),
}


async def authority_here(app: Retinue, definition: AgentDefinition, tenant: Tenant = DEFAULT_TENANT) -> Authority:
    """Who has a say when `definition` runs in the app's workspace."""
    runtime = app.engine.runtime
    return Authority(
        tiers=(*runtime.tiers, *agent_tiers(definition)),
        fallback=default_verdict(definition.permissions),
        place=Place(workspace=app.workspace, home=str(Path.home()), protected=runtime.protected),
        grants=tuple(await runtime.grants.of(tenant, None)),
        definition_hash=definition.hash,
        hosts=runtime.hosts,
    )


def decide(authority: Authority, definition: AgentDefinition, tool: str, argument: str) -> Decision:
    """What would be decided on a call of `tool` about `argument`: the command, path, URL, query or agent."""
    name = _one(tool)
    listed = offered(
        definition.tools,
        [name],
        allowed_commands=definition.allowed_commands,
        tiers=authority.tiers,
        fallback=authority.fallback,
    )
    if not listed:
        return Decision(verdict="deny", reason=f"{definition.id} does not get the tool {name}")
    op = _FILES.get(name)
    found = partial(resolve, workspace=authority.place.workspace)
    path = argument if argument.startswith("/") else f"{authority.place.workspace}/{argument}"
    targets = [found(op, path)] if op else []
    return judge_call(authority, name, argument, targets=targets, resolve=found, expand=notable_matches)


async def approved(app: Retinue, tenant: Tenant = DEFAULT_TENANT) -> dict[str, list[Approved]]:
    """Every call that a person approved, by agent."""
    store = app.engine.runtime.store
    asking = dict.fromkeys(thread for thread, _ in await store.questions(tenant, open=False))
    found: dict[str, list[Approved]] = {}
    for thread in asking:
        for agent, call in await _approved_in(app, thread):
            found.setdefault(agent, []).append(call)
    return found


async def _approved_in(app: Retinue, thread: ThreadId) -> list[tuple[str, Approved]]:
    asked: dict[QuestionId, QuestionAsked] = {}
    found: list[tuple[str, Approved]] = []
    definition = None
    for _, event in await read_log(app.engine.runtime.store, thread):
        match event:
            case ThreadStarted() | SegmentStarted():
                definition = event.pin.definition
            case QuestionAsked(kind="permission"):
                asked[event.id] = event
            case QuestionSettled(status="answered") if event.id in asked and event.scope != "deny" and definition:
                question = asked[event.id]
                resource = next(iter(question.resources), "") or resource_of(question.arguments or "")
                call = Approved(tool=question.tool or "", resource=resource, decision=question.decision)
                found.append((definition.id, call))
            case _:
                pass
    return found


def absolute_pattern(tool: str, pattern: str, workspace: str) -> str:
    """A pattern of files as grants match it: against where a path leads, from the root."""
    if tool not in _FILES or pattern.startswith(("/", "~", "*")):
        return pattern
    return f"{os.path.realpath(workspace)}/{pattern.removeprefix('./')}"


def _one(tool: str) -> str:
    name, *others = canonical(tool) or (tool,)
    if others or "*" in name:
        raise UsageError(f"{tool!r} stands for several tools; name one of them")
    return name
