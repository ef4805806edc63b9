"""How many threads are at work at once: in all, of one agent, of one caller; the rest waits, the longest first."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from retinue.app.clock import SystemClock
from retinue.app.settings_file import load_settings
from retinue.dispatch.local import LocalDispatcher
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.ports.store import Claim, NewThread
from retinue.runtime.completion import COMPLETE
from retinue.runtime.deps import Tuning
from retinue.schema.errors import SettingsError
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.sqlite import open_database
from retinue.testing.harness import QUICK, Scripts, log_of, scripted_app
from retinue.tools.function import tool
from support.agents import agent
from support.tree import complete, lead, outcomes


class Crowd:
    """A script that knows how many were asked at once; nobody is answered before so many are."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._complete = asyncio.Event()
        self.order: list[int] = []
        self.most: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    async def __call__(self, request: ScriptedRequest) -> Say:
        self._now[request.agent] += 1
        self.most[request.agent] = max(self.most[request.agent], self._now[request.agent])
        self.order.append(int(request.message))
        if len(self.order) >= self._size:
            self._complete.set()
        await self._complete.wait()
        await asyncio.sleep(0)
        self._now[request.agent] -= 1
        if COMPLETE not in request.tools:
            return Say(text="done")
        return complete(request.message, "FAILED" if request.message == "7" else "SUCCESS")


def many(count: int, *names: str) -> Say:
    wanted = [{"agent_name": names[i % len(names)], "input": f"{i}", "context_scope": "NONE"} for i in range(count)]
    return Say(calls=[CallTool("call_agent", arguments) for arguments in wanted])


@pytest.mark.spec("SUB-16")
async def test_a_hundred_children_of_an_agent_with_room_for_three_run_in_the_order_they_were_asked_for(
    tmp_path: Path,
) -> None:
    """One that fails takes nobody along."""
    crowd = Crowd(3)
    scripts: Scripts = {"lead": lambda r: many(100, "worker") if r.step == 1 else Say(text="done"), "worker": crowd}
    tuning = Tuning(titles=False, children_at_once=100, per_agent={"worker": 3})
    async with scripted_app(tmp_path, scripts, agents=[lead("worker"), agent("worker")], tuning=tuning) as app:
        async with asyncio.timeout(30):
            completion = await app.run("lead", "go")
        found = outcomes(await log_of(app, completion.thread))
    assert completion.result == "done"
    assert crowd.most == {"worker": 3}
    assert sorted(crowd.order) == list(range(100))
    assert all(abs(place - asked) <= 3 for place, asked in enumerate(crowd.order))
    assert Counter(o.status for o in found) == {"ok": 99, "error": 1}


@pytest.mark.spec("SUB-16")
async def test_limits_are_settings_and_an_agent_that_is_full_holds_up_no_other(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "retinue.toml").write_text('[limits]\nchildren = 9\ndepth = 2\n[limits.agents]\n"team/slow" = 1\n')
    settings = load_settings(tmp_path, {"RETINUE_HOME": str(home), "HOME": str(tmp_path)}, is_root=True)
    quick_done, release = asyncio.Event(), asyncio.Event()
    slow = 0

    async def worker(request: ScriptedRequest) -> Say:
        nonlocal slow
        if request.agent == "team/quick":
            quick_done.set()
            return complete()
        slow += 1
        assert slow == 1, "another one of the agent is at work"
        await release.wait()
        slow -= 1
        return complete()

    def boss(request: ScriptedRequest) -> Say:
        return many(6, "team/slow", "team/quick") if request.step == 1 else Say(text="done")

    agents = [lead("team/slow", "team/quick"), agent("team/slow"), agent("team/quick")]
    scripts: Scripts = {"lead": boss, "*": worker}
    async with scripted_app(tmp_path, scripts, agents=agents, settings=settings, tuning=QUICK) as app:
        tuning = app.engine.runtime.tuning
        thread = await app.start("lead", "go")
        async with asyncio.timeout(10):
            await quick_done.wait()
            release.set()
            completion = await app.engine.wait(thread)
        found = outcomes(await log_of(app, thread))
    assert (tuning.children_at_once, tuning.most_depth, tuning.per_agent) == (9, 2, {"team/slow": 1})
    assert completion.result == "done"
    assert [o.status for o in found] == ["ok"] * 6


@pytest.mark.spec("SUB-16")
async def test_a_limit_that_lets_nothing_run_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "retinue.toml").write_text('[limits.agents]\n"worker" = 0\n')
    with pytest.raises(SettingsError, match=r"limits\.agents"):
        load_settings(tmp_path, {"RETINUE_HOME": str(tmp_path), "HOME": str(tmp_path)}, is_root=True)


@pytest.mark.spec("SUB-16", "RUN-12")
async def test_a_thread_that_waits_for_its_agents_place_can_be_cancelled(tmp_path: Path) -> None:
    begun, asked = asyncio.Event(), 0

    async def worker(_: ScriptedRequest) -> Say:
        nonlocal asked
        asked += 1
        begun.set()
        return await asyncio.get_running_loop().create_future()

    tuning = Tuning(titles=False, per_agent={"worker": 1})
    async with scripted_app(tmp_path, {"worker": worker}, agents=[agent("worker")], tuning=tuning) as app:
        first = await app.start("worker", "1")
        async with asyncio.timeout(10):
            await begun.wait()
            second = await app.start("worker", "2")
            await app.engine.cancel(second, "not needed")
            completion = await app.engine.wait(second)
            await app.engine.cancel(first)
            await app.engine.wait(first)
    assert (completion.reason, completion.error) == ("aborted", "not needed")
    assert asked == 1


@pytest.mark.spec("SUB-16")
async def test_threads_over_the_limit_of_the_process_wait_for_a_place(tmp_path: Path) -> None:
    crowd = Crowd(2)
    tuning = Tuning(titles=False, threads_at_once=2)
    async with scripted_app(tmp_path, {"worker": crowd}, agents=[agent("worker")], tuning=tuning) as app:
        threads = [await app.start("worker", str(n)) for n in range(8)]
        async with asyncio.timeout(10):
            await asyncio.gather(*(app.engine.wait(thread) for thread in threads))
    assert crowd.most == {"worker": 2}
    assert crowd.order == sorted(crowd.order)


@pytest.mark.spec("RUN-12")
async def test_closing_ends_a_run_whose_tool_swallows_the_first_cancellation(tmp_path: Path) -> None:
    began, swallowed = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def stubborn() -> str:
        """Do not listen."""
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            swallowed.set()
        return await asyncio.get_running_loop().create_future()

    script = [Say(calls=[CallTool("stubborn", {})])]
    async with asyncio.timeout(10):
        async with scripted_app(tmp_path, script, agents=[agent("calc", "stubborn")], tools=[stubborn]) as app:
            await app.start("calc", "go")
            await began.wait()
    assert swallowed.is_set()


async def test_a_thread_that_could_not_be_driven_is_given_back_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="retinue")
    driven, failures = asyncio.Event(), iter([ValueError("a bug")])
    database = await open_database(tmp_path / "store.db")

    class Unlucky(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0.01)

    async def run(claim: Claim) -> None:
        for failure in failures:
            raise failure
        driven.set()

    async def look(threads: Sequence[ThreadId]) -> None:
        raise AssertionError

    thread = ThreadId("t")
    new = NewThread(id=thread, tenant=Tenant("default"), root=thread, agent="a", created_at=0.0, events=(b"{}",))
    await database.store.create(new)
    dispatcher = LocalDispatcher(database.store, Unlucky(), owner="o", run=run, look=look)
    dispatcher.start()
    try:
        async with asyncio.timeout(10):
            await driven.wait()
    finally:
        await dispatcher.stop()
        await database.close()
