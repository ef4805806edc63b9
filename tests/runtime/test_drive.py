"""Driving: how many commits a run takes, and what happens when driving itself is cut or fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from retinue.app.retinue import Retinue
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.ports.store import Commit, Committed, Store
from retinue.ports.tool import ToolContext
from retinue.runtime.deps import Tuning
from retinue.schema.errors import StoreUnavailable
from retinue.schema.events.runs import MessageReceived, RunCompleted, RunInterrupted, RunStarted
from retinue.schema.events.steps import CallSettled, CallStarted, ModelAnswered
from retinue.schema.events.union import decode
from retinue.schema.ids import ThreadId
from retinue.storage.sqlite import SqliteStore
from retinue.testing.harness import log_of, scripted_app
from retinue.tools.function import tool
from support.agents import add, agent
from support.mcp import settings, stub
from support.opening import OpenApp

OnCommit = Callable[[Commit], Awaitable[None]]


def watched(on_commit: OnCommit) -> Callable[[Store], Store]:
    """The store, with something that happens before each commit and while it is under way."""

    def wrapped(store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        commit = store.commit

        async def told(given: Commit) -> Committed:
            committed = await commit(given)
            await on_commit(given)
            return committed

        store.__setattr__("commit", told)
        return store

    return wrapped


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


@pytest.mark.spec("RUN-02")
async def test_a_run_is_one_commit_for_each_request_and_each_answer(tmp_path: Path) -> None:
    """The first with all that came before it, the last with the completion and the end of the lease."""
    commits: list[list[str]] = []

    async def noted(commit: Commit) -> None:
        commits.append([type(decode(event)).__name__ for event in commit.events])

    script = [call("add", a=1, b=1), Say(text="two")]
    async with scripted_app(
        tmp_path, script, agents=[agent("calc", "add")], tools=[add], wrap_store=watched(noted)
    ) as app:
        await app.run("calc", "go")
    assert commits == [
        ["MessageReceived", "RunStarted", "ModelAsked"],
        ["ModelAnswered"],
        ["CallSettled", "ModelAsked"],
        ["ModelAnswered", "RunCompleted"],
    ]


@pytest.mark.spec("RUN-09")
async def test_outcomes_that_come_together_are_committed_together(tmp_path: Path) -> None:
    """No commit is empty, and ten calls that end at once do not take ten."""
    commits: list[int] = []

    async def noted(commit: Commit) -> None:
        commits.append(len(commit.events))

    ten = Say(calls=tuple(CallTool("add", {"a": n, "b": 1}) for n in range(10)))
    async with scripted_app(
        tmp_path, [ten, Say(text="done")], agents=[agent("calc", "add")], tools=[add], wrap_store=watched(noted)
    ) as app:
        completion = await app.run("calc", "go")
    assert completion.result == "done"
    assert all(commits)
    assert len(commits) < 10


@tool(effect="write")
async def poke() -> str:
    """Change something."""
    return "poked"


@pytest.mark.spec("RUN-11")
async def test_a_write_is_recorded_as_started_with_the_answer_that_asked_for_it(open_app: OpenApp) -> None:
    async with open_app([call("poke"), Say(text="done")], agents=[agent("calc", "poke")], tools=[poke]) as app:
        completion = await app.run("calc", "go")
        log = await log_of(app, completion.thread)
    kinds = [type(e) for e in log if isinstance(e, ModelAnswered | CallStarted | CallSettled)]
    assert kinds == [ModelAnswered, CallStarted, CallSettled, ModelAnswered]


@pytest.mark.spec("RUN-12", "RUN-01")
async def test_an_interrupt_in_the_middle_of_a_commit_loses_nothing_and_the_thread_goes_on(tmp_path: Path) -> None:
    """Two calls run at once; when the first outcome is being written, the run is interrupted."""
    apps: list[Retinue] = []
    hangs = asyncio.Event()

    @tool(effect="read")
    async def quick() -> str:
        """Come back at once."""
        return "quick"

    @tool(effect="read")
    async def slow(context: ToolContext) -> str:
        """Come back when it is time."""
        await hangs.wait()
        return "slow"

    async def interrupt(commit: Commit) -> None:
        if any(isinstance(decode(event), CallSettled) for event in commit.events) and not hangs.is_set():
            hangs.set()
            await apps[0].engine.interrupt(commit.thread)
            for _ in range(5):
                await asyncio.sleep(0)

    def script(request: ScriptedRequest) -> Say:
        both = Say(calls=(CallTool("quick", {}), CallTool("slow", {})))
        return both if request.step == 1 else Say(text="both are back")

    agents = [agent("calc", "quick", "slow")]
    async with scripted_app(tmp_path, script, agents=agents, tools=[quick, slow], wrap_store=watched(interrupt)) as app:
        apps.append(app)
        async with asyncio.timeout(10):
            thread = await app.start("calc", "go")
            async for item in app.engine.follow(thread, deltas=False):
                if isinstance(getattr(item, "event", None), RunInterrupted):
                    break
            await app.engine.resume(thread)
            completion = await app.engine.wait(thread)
        log, row = await log_of(app, thread), await app.engine.runtime.store.row(thread)
    assert completion.result == "both are back"
    assert row is not None
    assert row.epoch == 2, "claimed at the start and to be resumed, never because it was lost"
    assert len([e for e in log if isinstance(e, CallSettled)]) == 2


@pytest.mark.spec("RUN-12")
async def test_a_fork_at_a_reply_goes_on_with_what_is_said_to_it(open_app: OpenApp) -> None:
    async with open_app(lambda r: Say(text=f"You said: {r.message}"), agents=[agent()]) as app:
        first = await app.run("calc", "one")
        log = await app.engine.log(ThreadId(first.thread))
        at = next(seq for seq, e in log if isinstance(e, ModelAnswered))
        fork = await app.engine.fork(ThreadId(first.thread), at=at, message="two")
        async with asyncio.timeout(5):
            completion = await app.engine.wait(fork)
        forked = await log_of(app, fork)
    assert completion.result == "You said: two"
    assert len([e for e in forked if isinstance(e, RunCompleted)]) == 1


@pytest.mark.spec("RUN-12")
async def test_another_message_takes_the_place_of_one_that_nobody_had_answered_when_the_thread_was_forked(
    open_app: OpenApp,
) -> None:
    async with open_app(lambda r: Say(text=f"You said: {r.message}"), agents=[agent()]) as app:
        first = await app.run("calc", "one")
        log = await app.engine.log(ThreadId(first.thread))
        at = next(seq for seq, e in log if isinstance(e, RunStarted))
        fork = await app.engine.fork(ThreadId(first.thread), at=at, message="two")
        async with asyncio.timeout(5):
            completion = await app.engine.wait(fork)
        said = [e for e in await log_of(app, fork) if isinstance(e, MessageReceived)]
    assert completion.result == "You said: two"
    assert len(said) == 1


@pytest.mark.spec("RUN-01")
async def test_whoever_waits_for_a_completion_is_told_when_the_app_is_closed(open_app: OpenApp) -> None:
    asked = asyncio.Event()

    async def script(request: ScriptedRequest) -> Say:
        asked.set()
        return await asyncio.get_running_loop().create_future()

    async with open_app(script, agents=[agent()]) as app:
        running = asyncio.create_task(app.run("calc", "go"))
        thread_seen = asyncio.create_task(_follow_to_the_end(app))
        async with asyncio.timeout(5):
            await asked.wait()
    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailable, match="was closed"):
            await running
        assert await thread_seen > 0


async def _follow_to_the_end(app: Retinue) -> int:
    thread = await app.start("calc", "go")
    return len([item async for item in app.engine.follow(thread)])


@pytest.mark.spec("RUN-01")
async def test_a_thread_whose_commit_failed_for_once_is_given_back_and_driven_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process may keep the database locked for longer than we wait."""
    caplog.set_level(logging.CRITICAL, logger="retinue")
    failures = iter([StoreUnavailable("another process kept it locked")])

    def unlucky(store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        commit = store.commit

        async def tried(given: Commit) -> Committed:
            for failure in failures:
                raise failure
            return await commit(given)

        store.__setattr__("commit", tried)
        return store

    tuning = Tuning(titles=False, lease=0.05)
    async with scripted_app(tmp_path, [Say(text="hi")], agents=[agent()], tuning=tuning, wrap_store=unlucky) as app:
        async with asyncio.timeout(10):
            thread = await app.start("calc", "go")
            with pytest.raises(StoreUnavailable, match="locked"):
                await app.engine.wait(thread)
            completion = await app.engine.wait(thread)
    assert completion.result == "hi"


@pytest.mark.spec("TOOL-06")
async def test_a_server_that_is_not_configured_any_more_ends_a_run_that_had_begun_with_a_clear_word(
    tmp_path: Path,
) -> None:
    definition = agent("calc", mcp_servers=("stub",))
    script = [call("request_user_input", prompt="Go on?"), Say(text="done")]
    async with scripted_app(
        tmp_path, script, agents=[definition], settings=settings(tmp_path, {"stub": stub()})
    ) as app:
        thread = await app.start("calc", "go")
        async with asyncio.timeout(20):
            while not (asked := await app.engine.runtime.store.questions(None)):
                await app.engine.runtime.store.work(0.05)
            await app.idle()
    async with (
        scripted_app(tmp_path, script, agents=[definition], settings=settings(tmp_path, {})) as app,
        asyncio.timeout(10),
    ):
        await app.engine.answer(asked[0][1].id, "yes")
        completion = await app.engine.wait(thread)
    assert (completion.status, completion.reason) == ("FAILED", "error")
    assert completion.error is not None
    assert "stub" in completion.error
    assert "internal" not in completion.error
