"""Interrupt, resume, cancel, terminate, fork; questions; a second process; what is shown while it happens."""

import asyncio

import pytest

from retinue.app.retinue import Retinue
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.models.scripted import ScriptedModel, ScriptedModels
from retinue.runtime.deps import Tuning
from retinue.runtime.follow import Happened
from retinue.runtime.live import Piece
from retinue.schema.agent import Compaction
from retinue.schema.errors import Conflict, UsageError
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import RunCompleted, RunInterrupted, RunResumed, RunStarted, RunWaiting
from retinue.schema.events.steps import AuxiliaryUsed, CallSettled, ModelAsked, ModelFailed
from retinue.schema.events.threads import ThreadForked, ThreadSummarized, ThreadTerminated, ThreadTitled
from retinue.schema.ids import QuestionId, ThreadId
from retinue.schema.permission import Permissions, Rule
from retinue.testing.harness import log_of
from retinue.tools.function import tool
from support.agents import add, agent
from support.opening import OpenApp
from support.tree import finished


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


async def until(app: Retinue, thread: ThreadId, *kinds: type) -> object:
    """The first event of one of these kinds, as it comes."""
    async with asyncio.timeout(5):
        async for item in app.engine.follow(thread, deltas=False):
            if isinstance(item, Happened) and isinstance(item.event, kinds):
                return item.event
    raise AssertionError


class Hanging:
    """A script whose first answer never comes, until it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = False
        self.hang = True

    async def __call__(self, request: ScriptedRequest) -> Say:
        if self.hang:
            self.asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return Say(text="here now")


@pytest.mark.spec("RUN-12", "RUN-16")
async def test_an_interrupted_run_stops_at_once_survives_a_restart_and_resumes(open_app: OpenApp) -> None:
    script = Hanging()
    async with open_app(script, agents=[agent()]) as app:
        thread = await app.start("calc", "go")
        async with asyncio.timeout(5):
            await script.asked.wait()
        await app.engine.interrupt(thread)
        await until(app, thread, RunInterrupted)
        assert script.cancelled
        assert (await app.engine.state(thread)).status == "interrupted"
    script.hang = False
    async with open_app(script, agents=[agent()]) as app:
        assert (await app.engine.state(thread)).status == "interrupted"
        await app.engine.resume(thread)
        async with asyncio.timeout(5):
            completion = await app.engine.wait(thread)
        log = await log_of(app, thread)
    assert completion.result == "here now"
    assert any(isinstance(e, RunResumed) for e in log)
    assert [e.code for e in log if isinstance(e, ModelFailed)] == ["aborted"]


@pytest.mark.spec("RUN-12", "RUN-05")
async def test_cancel_ends_the_run_without_another_request_and_the_thread_stays(open_app: OpenApp) -> None:
    script = Hanging()
    async with open_app(script, agents=[agent(completion="explicit")]) as app:
        thread = await app.start("calc", "go")
        async with asyncio.timeout(5):
            await script.asked.wait()
            await app.engine.cancel(thread, "never mind")
            completion = await app.engine.wait(thread)
        asks = [e for e in await log_of(app, thread) if isinstance(e, ModelAsked)]
    assert (completion.status, completion.reason, completion.error) == ("FAILED", "aborted", "never mind")
    assert len(asks) == 1


@pytest.mark.spec("RUN-12", "RUN-16")
async def test_a_terminated_thread_refuses_new_messages(open_app: OpenApp) -> None:
    async with open_app([Say(text="hi")], agents=[agent()]) as app:
        completion = await app.run("calc", "go")
        thread = ThreadId(completion.thread)
        await app.engine.terminate(thread)
        await until(app, thread, ThreadTerminated)
        assert await app.idle()
        with pytest.raises(Conflict):
            await app.engine.send(thread, "still there?")


@pytest.mark.spec("RUN-12")
async def test_a_fork_inherits_the_log_up_to_a_step_and_pays_only_for_what_comes_after(open_app: OpenApp) -> None:
    script = [call("add", a=1, b=1), Say(text="two"), Say(text="three")]
    async with open_app(script, agents=[agent("calc", "add")], tools=[add]) as app:
        first = await app.run("calc", "go")
        log = await app.engine.log(ThreadId(first.thread))
        at = next(seq for seq, e in log if isinstance(e, CallSettled))
        fork = await app.engine.fork(ThreadId(first.thread), at=at, message="another way")
        async with asyncio.timeout(5):
            completion = await app.engine.wait(fork)
        forked = [e for e in await log_of(app, fork) if isinstance(e, ThreadForked)]
        with pytest.raises(UsageError, match="is not among them"):
            await app.engine.fork(ThreadId(first.thread), at=999)
    assert completion.result == "two"
    assert [f.source for f in forked] == [first.thread]
    assert completion.usage.total < first.usage.total


@pytest.mark.spec("ASK-01", "RUN-08", "TOOL-09")
async def test_a_question_parks_the_thread_and_is_answered_after_a_restart(open_app: OpenApp) -> None:
    def script(request: ScriptedRequest) -> Say:
        if request.step == 1:
            return call("request_user_input", prompt="Which?", inputType="choice", choices=["red", "blue"])
        return Say(text=f"You said {request.outcomes[0].text}.")

    async with open_app(script, agents=[agent()]) as app:
        thread = await app.start("calc", "go")
        asked = await until(app, thread, QuestionAsked)
        assert isinstance(asked, QuestionAsked)
        await until(app, thread, RunWaiting)
        assert await app.idle()
        row = await app.engine.runtime.store.row(thread)
        assert row is not None
        assert row.owner is None
    async with open_app(script, agents=[agent()]) as app:
        with pytest.raises(UsageError, match="not one of the choices: red, blue"):
            await app.engine.answer(asked.id, "green")
        await app.engine.answer(asked.id, "blue")
        async with asyncio.timeout(5):
            completion = await app.engine.wait(thread)
    assert completion.result == "You said blue."


@pytest.mark.spec("ASK-01")
@pytest.mark.parametrize(("required", "status", "text"), [(True, "timed_out", "in time"), (False, "ok", "null")])
async def test_a_question_that_nobody_answers_in_time_is_settled(
    open_app: OpenApp, required: bool, status: str, text: str
) -> None:
    script = [call("request_user_input", prompt="?", required=required, timeoutMinutes=0.0001), Say(text="on")]
    async with open_app(script, agents=[agent()]) as app:
        async with asyncio.timeout(5):
            completion = await app.run("calc", "go")
        settled = [e.outcome for e in await log_of(app, completion.thread) if isinstance(e, CallSettled)]
    assert [o.status for o in settled] == [status]
    assert text in settled[0].text


@pytest.mark.spec("ASK-01", "PERM-05")
async def test_when_nobody_can_be_asked_the_outcome_says_so_at_once(open_app: OpenApp) -> None:
    strict = Permissions(default="ask")
    script = [call("request_user_input", prompt="?"), call("add", a=1, b=1), Say(text="on")]
    async with open_app(script, agents=[agent("calc", "add", permissions=strict)], tools=[add]) as app:
        completion = await app.run("calc", "go", people="none")
        outcomes = [e.outcome for e in await log_of(app, completion.thread) if isinstance(e, CallSettled)]
    assert [o.status for o in outcomes] == ["error", "denied"]
    assert all("obody can be asked" in o.text for o in outcomes)


@pytest.mark.spec("PERM-05", "PERM-01")
async def test_a_call_that_is_asked_shows_the_exact_arguments_and_runs_when_approved(open_app: OpenApp) -> None:
    ran: list[str] = []

    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        ran.append(where)
        return "deployed"

    asking = Permissions(rules=(Rule(tool="deploy", verdict="ask", reason="be careful"),), default="allow")
    script = [call("deploy", where="prod"), call("deploy", where="test"), Say(text="done")]
    async with open_app(script, agents=[agent("calc", "deploy", permissions=asking)], tools=[deploy]) as app:
        thread = await app.start("calc", "go")
        first = await until(app, thread, QuestionAsked)
        assert isinstance(first, QuestionAsked)
        assert (first.kind, first.arguments) == ("permission", '{"where":"prod"}')
        assert ran == []
        await app.engine.answer(first.id, None, scope="once")
        async with asyncio.timeout(5):
            while len(open_ := await app.engine.runtime.store.questions(None)) == 0 or open_[0][1].id == first.id:
                await app.engine.runtime.store.changed(thread, after=10**9, timeout=0.02)
        await app.engine.answer(QuestionId(open_[0][1].id), "not today", scope="deny")
        async with asyncio.timeout(5):
            completion = await app.engine.wait(thread)
        outcomes = [e.outcome for e in await log_of(app, thread) if isinstance(e, CallSettled)]
    assert ran == ["prod"]
    assert [o.status for o in outcomes] == ["ok", "denied"]
    assert "not today" in outcomes[1].text
    assert completion.result == "done"


@pytest.mark.spec("RUN-14")
async def test_deltas_stream_with_offsets_and_a_late_reader_gets_the_text_so_far(open_app: OpenApp) -> None:
    async with open_app([Say(text="one two three", chunks=3)], agents=[agent()]) as app:
        pieces = [item async for item in app.stream("calc", "go") if isinstance(item, Piece)]
    text = ""
    for piece in pieces:
        assert piece.offset == len(text)
        text += piece.text
    assert "one two three".startswith(text)


@pytest.mark.spec("RUN-14", "OBS-01")
async def test_a_reader_that_comes_back_misses_no_event_and_sees_none_twice(open_app: OpenApp) -> None:
    async with open_app([call("add", a=1, b=1), Say(text="2")], agents=[agent("calc", "add")], tools=[add]) as app:
        completion = await app.run("calc", "go")
        seen: list[int] = []
        for _ in range(3):
            async for item in app.engine.follow(ThreadId(completion.thread), after=seen[-1] if seen else 0):
                if isinstance(item, Happened):
                    seen.append(item.seq)
                if len(seen) % 3 == 0:
                    break
    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.spec("RUN-01", "RUN-13")
async def test_another_process_may_speak_to_a_thread_that_this_one_drives(open_app: OpenApp) -> None:
    script = Hanging()
    async with open_app(script, agents=[agent()]) as app:
        thread = await app.start("calc", "go")
        async with asyncio.timeout(5):
            await script.asked.wait()
        async with open_app(script, agents=[agent()]) as other:
            assert other.engine.drives is False
            await other.engine.cancel(thread, "from elsewhere")
            async with asyncio.timeout(5):
                completion = await other.engine.wait(thread)
    assert completion.error == "from elsewhere"


@pytest.mark.spec("RUN-11")
async def test_whoever_waits_takes_over_when_the_driver_goes_away(open_app: OpenApp) -> None:
    first = open_app([Say(text="done")], agents=[agent()])
    app = await first.__aenter__()
    async with open_app([Say(text="done")], agents=[agent()]) as other:
        await first.__aexit__(None, None, None)
        async with asyncio.timeout(5):
            completion = await other.run("calc", "go")
    assert completion.result == "done"
    del app


@pytest.mark.spec("OBS-01")
async def test_answers_to_questions_are_events(open_app: OpenApp) -> None:
    script = [call("request_user_input", prompt="Name?"), Say(text="ok")]
    async with open_app(script, agents=[agent()]) as app:
        thread = await app.start("calc", "go")
        asked = await until(app, thread, QuestionAsked)
        assert isinstance(asked, QuestionAsked)
        await app.engine.answer(asked.id, "Ann", by="tester")
        await until(app, thread, RunCompleted)
        settled = [e for e in await log_of(app, thread) if isinstance(e, QuestionSettled)]
    assert [(s.answer, s.by, s.status) for s in settled] == [("Ann", "tester", "answered")]


@pytest.mark.spec("REG-12")
async def test_a_thread_is_titled_after_its_first_completion_and_summed_up_when_it_is_terminated(
    open_app: OpenApp,
) -> None:
    def script(request: ScriptedRequest) -> Say:
        return Say(text={"title": "A good title", "summary": "We said hello."}.get(request.agent, "hello"))

    async with open_app({"*": script}, agents=[agent()], tuning=Tuning()) as app:
        completion = await app.run("calc", "hi there")
        thread = ThreadId(completion.thread)
        titled = await until(app, thread, ThreadTitled)
        await app.engine.terminate(thread)
        summed = await until(app, thread, ThreadSummarized)
        used = [e.agent for e in await log_of(app, thread) if isinstance(e, AuxiliaryUsed)]
        cost = (await app.engine.state(thread)).usage.total
    assert isinstance(titled, ThreadTitled)
    assert isinstance(summed, ThreadSummarized)
    assert (titled.title, summed.summary) == ("A good title", "We said hello.")
    assert used == ["title", "summary"]
    assert cost > completion.usage.total


@pytest.mark.spec("RUN-13")
async def test_a_message_that_came_too_late_for_a_run_is_what_the_next_one_starts_with(open_app: OpenApp) -> None:
    """It is asked for by its own words and inputs, not by those of the run before."""
    apps: list[Retinue] = []

    async def script(request: ScriptedRequest) -> Say:
        if request.message == "first":
            [app] = apps
            await app.engine.send(ThreadId(thread), "second")
        return Say(text=f"answer to {request.message}")

    async with open_app(script, agents=[agent("solo", prompt="Do: {{prompt}}")]) as app:
        apps.append(app)
        pin = app.engine.runtime.agents.pin("solo")
        thread = "22222222-2222-4222-8222-222222222222"
        await app.engine.start(pin, "first", id=ThreadId(thread))
        await finished(app, thread, 2)
        log = await log_of(app, thread)
    assert [e.prompt for e in log if isinstance(e, RunStarted)] == ["first", "second"]
    assert [e.completion.result for e in log if isinstance(e, RunCompleted)] == ["answer to first", "answer to second"]


@pytest.mark.spec("RUN-12", "RUN-10")
async def test_an_interrupt_while_the_past_is_summarised_stops_the_run_and_breaks_nothing(open_app: OpenApp) -> None:
    asked = asyncio.Event()
    summaries = 0

    async def script(request: ScriptedRequest) -> Say:
        nonlocal summaries
        if request.agent != "long":
            summaries += 1
            asked.set()
            return Say(text="so far") if summaries > 1 else await asyncio.get_running_loop().create_future()
        done = request.step > 9 or "so far" in str(request.turns)
        words = Say(text="y" * 900, calls=(CallTool("add", {"a": request.step, "b": 0}),))
        return Say(text="fine") if done else words

    model = ScriptedModel(script, window=4000)
    definition = agent("long", "add", compaction=Compaction(at=0.3, keep=0.1))
    async with open_app(ScriptedModels(model), agents=[definition], tools=[add]) as app:
        thread = await app.start("long", "go")
        async with asyncio.timeout(10):
            await asked.wait()
        await app.engine.interrupt(thread)
        await until(app, thread, RunInterrupted)
        await app.engine.resume(thread)
        await until(app, thread, RunCompleted)
        log = await log_of(app, thread)
    assert [e.completion.result for e in log if isinstance(e, RunCompleted)] == ["fine"]
    assert summaries == 2
