"""Questions of a tree: listed at the root with the path of agents, answered one by one."""

import asyncio

import pytest

from retinue.app.questions import Reply, answer, open_questions
from retinue.models.script import Say, ScriptedRequest
from retinue.ports.tool import Tool
from retinue.schema.events.children import ChildStarted
from retinue.schema.events.people import QuestionAsked
from retinue.schema.ids import ThreadId
from retinue.schema.message import text_of
from retinue.schema.permission import Permissions, Rule
from retinue.testing.harness import Scripts, log_of
from retinue.tools.function import tool
from support.agents import agent
from support.opening import OpenApp
from support.tree import ask, call, calls, children, complete, lead, texts, until


@pytest.mark.spec("ASK-02", "ASK-03")
async def test_grandchildrens_questions_are_listed_at_the_root_and_answers_reach_exactly_the_one(
    open_app: OpenApp,
) -> None:
    heard: list[str] = []

    def leaf(request: ScriptedRequest) -> Say:
        if not request.outcomes:
            return call("request_user_input", prompt=f"{request.message}: which colour?")
        heard.append(f"{text_of(request.turns[0].parts)} {request.outcomes[-1].text}")
        return complete(request.outcomes[-1].text)

    both = calls(*(("call_agent", {"agent_name": "leaf", "input": i, "context_scope": "NONE"}) for i in ("one", "two")))
    middle = agent("middle", allowed_agents=("leaf",), can_spawn_subagents=True)
    scripts: Scripts = {"lead": [ask("middle"), Say(text="done")], "middle": [both, complete("ok")], "leaf": leaf}
    agents = [lead("middle"), middle, agent("leaf")]
    async with open_app(scripts, agents=agents) as app:
        thread = await app.start("lead", "go")
        await until(app, thread, ChildStarted)
        [child] = await children(app, thread)
        await until(app, child.reference, ChildStarted, times=2)
        for leaf_thread in await children(app, child.reference):
            await until(app, leaf_thread.reference, QuestionAsked)
    async with open_app(scripts, agents=agents) as app:
        listed = await open_questions(app, root=thread)
        assert [q.path for q in listed] == [("lead", "middle", "leaf")] * 2
        by_prompt = {q.prompt: q for q in listed}
        rows = await app.engine.runtime.store.questions(None, root=thread)
        assert {id for id, _ in rows} == {q.thread for q in listed}
        first, second = by_prompt["one: which colour?"], by_prompt["two: which colour?"]
        assert await answer(app, second.id, Reply(answer="blue")) == second.thread
        await app.engine.wait(second.thread)
        assert heard == ["two blue"]
        assert [q.id for q in await open_questions(app, root=thread)] == [first.id]
        await answer(app, first.id, Reply(answer="red"))
        async with asyncio.timeout(10):
            assert (await app.engine.wait(thread)).result == "done"
        assert await open_questions(app, root=thread) == []
    assert heard == ["two blue", "one red"]


touched: list[str] = []


@tool(effect="write")
def touch(name: str) -> str:
    """Touch something."""
    touched.append(name)
    return "touched"


@pytest.mark.spec("ASK-03", "ASK-02")
async def test_approving_one_childs_call_leaves_its_siblings_parked(open_app: OpenApp) -> None:
    touched.clear()
    tools: list[Tool] = [touch]

    def worker(request: ScriptedRequest) -> Say:
        return complete() if request.outcomes else call("touch", name=request.message)

    both = calls(*(("call_agent", {"agent_name": "worker", "input": i, "context_scope": "NONE"}) for i in "ab"))
    asks = Permissions(default="allow", rules=(Rule(tool="touch", verdict="ask"),))
    scripts: Scripts = {"lead": lambda r: both if r.step == 1 else Say(text="done"), "worker": worker}
    async with open_app(
        scripts, agents=[lead("worker"), agent("worker", "touch", permissions=asks)], tools=tools
    ) as app:
        thread = await app.start("lead", "go")
        await until(app, thread, ChildStarted, times=2)
        for child in await children(app, thread):
            await until(app, child.reference, QuestionAsked)
        one, other = await open_questions(app, root=thread)
        assert one.path == ("lead", "worker")
        await answer(app, one.id, Reply(scope="once"))
        await app.engine.wait(one.thread)
        assert len(touched) == 1
        assert [q.id for q in await open_questions(app, root=thread)] == [other.id]
        await answer(app, other.id, Reply(scope="deny", answer="not now"))
        async with asyncio.timeout(10):
            await app.engine.wait(thread)
        log = await log_of(app, ThreadId(other.thread))
    assert len(touched) == 1
    assert "They said: not now" in texts(log)[0]
