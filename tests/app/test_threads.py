import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from retinue.app.retinue import Retinue
from retinue.app.threads import find_thread, plan_message, resume_tree, rows_of_tree, tree_of
from retinue.models.script import CallTool, Fault, Say, ScriptedRequest
from retinue.runtime.completion import COMPLETE
from retinue.schema.errors import Conflict, ThreadNotFound, UsageError
from retinue.schema.ids import ThreadId
from retinue.testing.harness import scripted_app
from support.agents import agent


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


TEAM = [agent("boss", can_spawn_subagents=True, allowed_agents=("worker",)), agent("worker")]


async def until(app: Retinue, thread: ThreadId, *statuses: str) -> None:
    async with asyncio.timeout(10), aclosing(app.engine.follow(thread, tree=True, deltas=False)) as items:
        async for _ in items:
            rows = await rows_of_tree(app.engine.runtime.store, thread)
            if {row.listing.status for row in rows} == set(statuses):
                return


@pytest.mark.spec("RUN-12", "OBS-04")
async def test_a_tree_is_interrupted_and_resumed_as_one(tmp_path: Path) -> None:
    hanging = [True]

    def script(request: ScriptedRequest) -> Say | Fault:
        if request.agent == "boss":
            return call("call_agent", agent_name="worker", input="go") if request.step == 1 else Say(text="Done.")
        return Fault("hang", times=None) if hanging[0] else call(COMPLETE, result="ok", status="SUCCESS")

    async with scripted_app(tmp_path, script, agents=TEAM) as app:
        thread = await app.start("boss", "go")
        await until(app, thread, "waiting", "running")
        tree = await tree_of(app.engine.runtime.store, thread, now=app.engine.runtime.clock.now())
        assert (tree.waits_for, [c.name for c in tree.children]) == ("child", ["worker"])

        await app.engine.interrupt(thread)
        await until(app, thread, "interrupted")
        hanging[0] = False
        await resume_tree(app.engine, thread)

        assert (await app.engine.wait(thread)).result == "Done."
        with pytest.raises(Conflict, match="nothing to resume"):
            await resume_tree(app.engine, thread)


async def test_a_thread_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    ids = [ThreadId(f"aaaa{n}000-0000-4000-8000-000000000000") for n in (1, 2)]
    async with scripted_app(tmp_path, ["Hi.", "Hi."], agents=[agent("worker")]) as app:
        for id in ids:
            await app.start("worker", "go", id=id)
        store = app.engine.runtime.store

        assert await find_thread(store, "AAAA1") == ids[0]
        assert await find_thread(store, ids[1]) == ids[1]
        with pytest.raises(UsageError, match="may be"):
            await find_thread(store, "aaaa")
        for prefix in ("bbbb", ""):
            with pytest.raises(ThreadNotFound):
                await find_thread(store, prefix)


@pytest.mark.spec("RUN-07")
async def test_a_plan_becomes_a_message(tmp_path: Path) -> None:
    plan = {"goal": "g", "steps": [{"id": "1", "what": "w"}]}
    script = {"planner": [call(COMPLETE, result=plan, status="SUCCESS")], "talker": ["Just text."]}
    agents = [agent("planner", execution_mode="planning", completion="explicit"), agent("talker")]
    async with scripted_app(tmp_path, script, agents=agents) as app:
        planned = (await app.run("planner", "plan")).thread
        talked = (await app.run("talker", "talk")).thread

        message = plan_message(await app.engine.state(ThreadId(planned)), "Carefully.")
        assert message.startswith("Carefully.\n\nCarry out this plan:\n\n```json\n{")
        with pytest.raises(Conflict, match="has no plan"):
            plan_message(await app.engine.state(ThreadId(talked)), "")
