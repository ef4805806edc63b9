"""A child's power is its own, under its callers' ceiling: denies descend the live chain, a caller's rules do not."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from retinue.app.settings import PermissionSettings, Settings, SettingsFile, Tier
from retinue.models.script import Say, ScriptedRequest
from retinue.schema.agent import AgentDefinition, ToolFilter
from retinue.schema.ids import ThreadId
from retinue.schema.message import Outcome
from retinue.schema.permission import Permissions, Rule, RulesetName
from retinue.testing.harness import scripted_app
from retinue.tools.function import tool
from support.agents import agent
from support.tree import ask, call, complete

ALLOW = Permissions(default="allow")


class Note:
    """A tool that writes, the calls it got, and what the grandchild was offered and told."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.offered = False
        self.told: list[Outcome] = []

        @tool(effect="write", resource="path")
        def note(path: str) -> str:
            """Write a note."""
            self.written.append(path)
            return "noted"

        self.tool = note

    def script(self, request: ScriptedRequest) -> Say:
        """The lead asks the manager, the manager the worker, and the worker writes."""
        if request.agent == "worker":
            self.offered = "note" in request.tools
            self.told += request.outcomes
            return complete() if request.outcomes else call("note", path="secret/plan")
        if request.outcomes:
            return complete() if request.agent == "manager" else Say(text="done")
        return ask("manager" if request.agent == "lead" else "worker")


def team(lead: Permissions = ALLOW, manager: Permissions = ALLOW, mode: str = "agentic") -> list[AgentDefinition]:
    spawns = {"can_spawn_subagents": True}
    return [
        agent("lead", "note", allowed_agents=("manager",), permissions=lead, execution_mode=mode, **spawns),
        agent("manager", "note", allowed_agents=("worker",), permissions=manager, **spawns),
        agent("worker", "note"),
    ]


def tiers(folder: Path, name: str, rules: Sequence[Rule]) -> Settings:
    file = SettingsFile(permissions=PermissionSettings(rules=tuple(rules)))
    settings = Settings(home=folder / "home", root=folder / "workspace")
    match name:
        case "operator":
            return Settings(home=settings.home, root=settings.root, operator=Tier(name="operator", settings=file))
        case "user":
            return Settings(home=settings.home, root=settings.root, user=Tier(name="user", settings=file))
        case "project":
            tier = Tier(name="project", settings=file, trusted=False)
            return Settings(home=settings.home, root=settings.root, project=tier)
        case _:
            return settings


async def run(
    folder: Path, note: Note, agents: Sequence[AgentDefinition], settings: Settings, denies: Sequence[Rule] = ()
) -> None:
    async with scripted_app(folder, note.script, agents=agents, tools=[note.tool], settings=settings) as app:
        thread = await app.engine.start(app.engine.runtime.agents.pin("lead"), "go", denies=denies, people="none")
        async with asyncio.timeout(10):
            await app.engine.wait(ThreadId(thread))


@pytest.mark.spec("SUB-04")
@pytest.mark.parametrize("tier", ["operator", "user", "project", "session"])
@pytest.mark.parametrize("pattern", ["*", "secret/*"])
async def test_a_deny_of_whoever_is_above_agents_reaches_the_grandchild(
    tmp_path: Path, tier: str, pattern: str
) -> None:
    """A tool that is denied outright is not even offered; one that is denied for this resource is refused."""
    note, rule = Note(), Rule(tool="note", pattern=pattern, verdict="deny", reason="not for agents")
    await run(tmp_path, note, team(), tiers(tmp_path, tier, [rule]), [rule] if tier == "session" else [])
    assert note.written == []
    assert note.offered == (pattern != "*")
    if note.offered:
        assert [(o.status, "not for agents" in o.text) for o in note.told] == [("denied", True)]


@pytest.mark.spec("SUB-04", "RUN-07")
async def test_a_planning_callers_read_only_reaches_the_grandchild(tmp_path: Path) -> None:
    note = Note()
    await run(tmp_path, note, team(mode="planning"), tiers(tmp_path, "", []))
    assert (note.offered, note.written) == (False, [])
    assert {o.status for o in note.told} == {"error"}


@pytest.mark.spec("SUB-04")
async def test_rules_of_the_callers_own_definitions_do_not_strangle_their_workers(tmp_path: Path) -> None:
    """A coordinator that may write nothing itself still has workers who do."""
    own = Permissions(default="deny", rules=(Rule(tool="note", verdict="deny"),))
    note, (lead, manager, worker) = Note(), team(lead=own, manager=own)
    await run(tmp_path, note, [lead, manager, worker], tiers(tmp_path, "", []))
    assert (note.offered, note.written) == (True, ["secret/plan"])


@pytest.mark.spec("SUB-04")
async def test_a_callers_tool_filter_does_not_descend_either(tmp_path: Path) -> None:
    note, (lead, manager, worker) = Note(), team()
    none = agent("lead", allowed_agents=("manager",), can_spawn_subagents=True, tools=ToolFilter(only=((),)))
    await run(tmp_path, note, [none, manager, worker], tiers(tmp_path, "", []))
    assert lead.id == none.id
    assert note.written == ["secret/plan"]


@pytest.mark.spec("SUB-04")
async def test_an_allow_above_does_not_widen_what_the_child_may_do(tmp_path: Path) -> None:
    """Only denies descend: a worker that has no right of its own gets none from its callers."""
    note, (lead, manager, _) = Note(), team()
    worker = agent("worker", "note", permissions=Permissions(default="deny"))
    rule = Rule(tool="note", verdict="allow")
    await run(tmp_path, note, [lead, manager, worker], tiers(tmp_path, "", []), [rule])
    assert note.written == []


@pytest.mark.spec("SUB-04")
async def test_the_chain_is_the_live_one_the_same_worker_called_by_another_is_free(tmp_path: Path) -> None:
    """The ceiling belongs to the chain of callers, not to the agent."""
    note, rule = Note(), Rule(tool="note", verdict="deny")
    async with scripted_app(tmp_path, note.script, agents=team(), tools=[note.tool]) as app:
        pin = app.engine.runtime.agents.pin("lead")
        written: list[int] = []
        for denies in ([rule], []):
            async with asyncio.timeout(10):
                await app.engine.wait(await app.engine.start(pin, "go", denies=denies, people="none"))
            written.append(len(note.written))
    assert written == [0, 1]


@pytest.mark.spec("SUB-04", "SUB-03", "TOOL-10")
@pytest.mark.parametrize(("ruleset", "delegates"), [("planner", True), ("explorer", False), ("researcher", False)])
async def test_a_ruleset_that_does_not_delegate_takes_every_form_of_it_away(
    tmp_path: Path, ruleset: RulesetName, delegates: bool
) -> None:
    offered: set[str] = set()

    def script(request: ScriptedRequest) -> Say:
        offered.update(request.tools)
        return Say(text="ok")

    rules = Permissions(ruleset=ruleset)
    boss = agent("lead", "task", allowed_agents=("worker",), can_spawn_subagents=True, permissions=rules)
    async with scripted_app(tmp_path, script, agents=[boss, agent("worker")]) as app:
        await app.run("lead", "go")
    forms = {"call_agent", "task", "agent_worker"}
    assert forms & offered == (forms if delegates else set())
