"""Many children at once: bounded, in order, stopped together and each failing alone; rules down the chain."""

import asyncio

import pytest

from retinue.app.thread_views import children_of
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.runtime.deps import Tuning
from retinue.schema.agent import Subagent
from retinue.schema.events.children import ChildReported, ChildStarted
from retinue.schema.events.runs import RunInterrupted
from retinue.schema.ids import ThreadId
from retinue.schema.permission import Permissions, Rule
from retinue.testing.harness import Scripts, log_of
from support.agents import add, agent
from support.opening import OpenApp
from support.tree import ask, call, children, complete, finished, lead, outcomes, texts, until


def many(count: int, name: str = "worker") -> Say:
    arguments = [{"agent_name": name, "input": f"{i}", "context_scope": "NONE"} for i in range(count)]
    return Say(calls=[CallTool("call_agent", each) for each in arguments])


@pytest.mark.spec("SUB-16")
async def test_a_hundred_children_run_a_few_at_a_time_in_the_order_they_were_asked_for(open_app: OpenApp) -> None:
    order: list[int] = []
    now = most = 0

    async def worker(request: ScriptedRequest) -> Say:
        nonlocal now, most
        order.append(int(request.message))
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return complete(request.message, "FAILED" if request.message == "7" else "SUCCESS")

    scripts: Scripts = {"lead": lambda r: many(100) if r.step == 1 else Say(text="done"), "worker": worker}
    tuning = Tuning(titles=False, children_at_once=8)
    async with open_app(scripts, agents=[lead("worker"), agent("worker")], tuning=tuning) as app:
        completion = await app.run("lead", "go")
        found = outcomes(await log_of(app, completion.thread))
    assert completion.result == "done"
    assert sorted(order) == list(range(100))
    assert most <= 8
    assert all(abs(place - asked) <= 8 for place, asked in enumerate(order))
    assert [o.status for o in found].count("error") == 1
    assert len(found) == 100


@pytest.mark.spec("RUN-12", "SUB-16")
async def test_cancel_reaches_children_that_run_and_those_that_still_wait_for_a_slot(open_app: OpenApp) -> None:
    begun: list[str] = []
    started = asyncio.Event()

    async def worker(request: ScriptedRequest) -> Say:
        begun.append(request.message)
        if len(begun) == 2:
            started.set()
        return await asyncio.get_running_loop().create_future()

    scripts: Scripts = {"lead": lambda _: many(5), "worker": worker}
    tuning = Tuning(titles=False, children_at_once=2)
    async with open_app(scripts, agents=[lead("worker"), agent("worker")], tuning=tuning) as app:
        thread = await app.start("lead", "go")
        async with asyncio.timeout(10):
            await started.wait()
            await app.engine.cancel(thread, "enough")
            ends = [await app.engine.wait(c.reference) for c in await children(app, thread)]
            await app.engine.wait(thread)
    assert [e.reason for e in ends] == ["aborted"] * 5
    assert len(begun) == 2


@pytest.mark.spec("RUN-12", "SUB-16")
async def test_an_interrupt_stops_the_whole_tree_and_resume_lets_it_go_on(open_app: OpenApp) -> None:
    stuck = asyncio.Event()
    asked = 0

    async def leaf(_: ScriptedRequest) -> Say:
        nonlocal asked
        asked += 1
        if asked == 1:
            stuck.set()
            return await asyncio.get_running_loop().create_future()
        return complete("leaf done")

    middle = agent("middle", allowed_agents=("leaf",), can_spawn_subagents=True)
    scripts: Scripts = {
        "lead": [ask("middle"), Say(text="done")],
        "middle": [ask("leaf"), complete("middle done")],
        "leaf": leaf,
    }
    agents = [lead("middle"), middle, agent("leaf")]
    async with open_app(scripts, agents=agents) as app:
        thread = await app.start("lead", "go")
        async with asyncio.timeout(10):
            await stuck.wait()
        await app.engine.interrupt(thread)
        [child] = await children(app, thread)
        [grandchild] = await children(app, child.reference)
        for each in (thread, child.reference, grandchild.reference):
            await until(app, each, RunInterrupted)
    async with open_app(scripts, agents=agents) as app:
        statuses = [(await app.engine.state(t)).status for t in (thread, child.reference, grandchild.reference)]
        assert statuses == ["interrupted"] * 3
        await app.engine.resume(thread)
        await finished(app, thread)
        log = await log_of(app, thread)
    assert "middle done" in texts(log)[0]
    assert asked == 2


@pytest.mark.spec("RUN-12", "SUB-13")
async def test_terminating_a_parent_terminates_its_children(open_app: OpenApp) -> None:
    started = asyncio.Event()

    async def worker(_: ScriptedRequest) -> Say:
        started.set()
        return await asyncio.get_running_loop().create_future()

    scripts: Scripts = {"lead": [ask("worker")], "worker": worker}
    async with open_app(scripts, agents=[lead("worker"), agent("worker")]) as app:
        thread = await app.start("lead", "go")
        async with asyncio.timeout(10):
            await started.wait()
            await app.engine.terminate(thread)
            [child] = await children(app, thread)
            assert (await app.engine.wait(child.reference)).reason == "terminated"
        state = await app.engine.state(child.reference)
    assert state.status == "terminated"


@pytest.mark.spec("RUN-12", "SUB-13")
async def test_terminating_a_child_that_is_waited_for_settles_the_call(open_app: OpenApp) -> None:
    started = asyncio.Event()

    async def worker(_: ScriptedRequest) -> Say:
        started.set()
        return await asyncio.get_running_loop().create_future()

    scripts: Scripts = {"lead": [ask("worker"), Say(text="went on")], "worker": worker}
    async with open_app(scripts, agents=[lead("worker"), agent("worker")]) as app:
        thread = await app.start("lead", "go")
        async with asyncio.timeout(10):
            await started.wait()
            [child] = await children(app, thread)
            await app.engine.terminate(child.reference, "not needed")
            completion = await app.engine.wait(thread)
        await until(app, thread, ChildReported, times=2)
        [view] = children_of(await app.engine.state(thread))
    assert completion.result == "went on"
    assert view.status == "terminated"


@pytest.mark.spec("SUB-04")
async def test_session_denies_and_planning_descend_but_a_callers_own_rules_do_not(open_app: OpenApp) -> None:
    """Children that bypass denies, and coordinators whose denies strangle their workers: neither."""
    offered: dict[str, bool] = {}

    def look(request: ScriptedRequest) -> Say:
        offered[request.agent] = "add" in request.tools
        return complete()

    own = Permissions(default="allow", rules=(Rule(tool="add", verdict="deny"),))
    middle = agent("middle", "add", allowed_agents=("leaf",), can_spawn_subagents=True, permissions=own)

    def between(request: ScriptedRequest) -> Say:
        return ask("leaf") if not request.outcomes else look(request)

    scripts: Scripts = {"lead": lambda r: ask("middle") if r.step == 1 else Say("ok"), "middle": between, "leaf": look}
    agents = [lead("middle"), middle, agent("leaf", "add")]
    async with open_app(scripts, agents=agents, tools=[add]) as app:
        await app.run("lead", "go")
        assert offered == {"middle": False, "leaf": True}
        pin = app.engine.runtime.agents.pin("lead")
        thread = await app.engine.start(pin, "go", denies=[Rule(tool="add", verdict="deny", reason="not today")])
        async with asyncio.timeout(10):
            await app.engine.wait(thread)
    assert offered == {"middle": False, "leaf": False}


@pytest.mark.spec("SUB-03", "SUB-02")
async def test_who_may_call_whom(open_app: OpenApp) -> None:
    offered: dict[str, set[str]] = {}

    def look(request: ScriptedRequest) -> Say:
        names = {n for n in request.tools if n.startswith("agent_") or n in ("call_agent", "task")}
        offered[request.agent] = names
        return Say(text="ok")

    spawns = {"can_spawn_subagents": True}
    agents = [
        agent("none", allowed_agents=(), **spawns),
        agent("omitted", **spawns),
        agent("star", "task", allowed_agents=("*",), **spawns),
        agent("named", allowed_agents=("secret", "chief", "team/a b"), **spawns),
        agent("sub", category="subagent", **spawns),
        agent("secret", category="hidden"),
        agent("chief", category="primary"),
        agent("team/a b"),
    ]
    async with open_app({"*": look}, agents=agents) as app:
        for name in ("none", "omitted", "star", "named", "sub"):
            await app.run(name, "go")
    assert offered["none"] == set()
    assert offered["omitted"] == {"call_agent"}
    assert {"call_agent", "task"} <= offered["star"]
    assert offered["named"] == {"call_agent", "agent_chief", "agent_team_a_b"}
    assert offered["sub"] == set()


@pytest.mark.spec("SUB-04", "SUB-03")
async def test_a_rule_about_task_holds_for_every_form_of_delegation(open_app: OpenApp) -> None:
    rules = Permissions(default="allow", rules=(Rule(tool="task", pattern="worker", verdict="deny", reason="no"),))
    scripts: Scripts = {"lead": [ask("worker"), call("agent_worker", query="x"), Say(text="ok")]}
    async with open_app(scripts, agents=[lead("worker", permissions=rules), agent("worker")]) as app:
        log = await log_of(app, (await app.run("lead", "go")).thread)
    assert [o.status for o in outcomes(log)] == ["denied", "denied"]


@pytest.mark.spec("SUB-16", "SUB-06")
async def test_a_child_that_failed_later_is_told_and_its_siblings_go_on(open_app: OpenApp) -> None:
    configs = tuple(Subagent(name=name, blocking=False) for name in ("good", "bad"))
    boss = agent("lead", subagents=configs, can_spawn_subagents=True)
    both = Say(calls=[CallTool("agent_good", {"message": "x"}), CallTool("agent_bad", {"message": "x"})])
    scripts: Scripts = {
        "lead": lambda r: both if r.step == 1 else Say(text="ok"),
        "good": lambda _: complete(),
        "bad": lambda _: complete("no", "FAILED"),
    }
    async with open_app(scripts, agents=[boss, agent("good"), agent("bad")]) as app:
        thread = ThreadId((await app.run("lead", "go")).thread)
        await until(app, thread, ChildReported, times=2)
        views = children_of(await app.engine.state(thread))
        groups = {e.spawn_group for e in await log_of(app, thread) if isinstance(e, ChildStarted)}
    assert {v.name: v.status for v in views} == {"good": "completed", "bad": "failed"}
    assert len(groups) == 1
