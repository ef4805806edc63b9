"""The loop, through the app object and the scripted model."""

import asyncio

import msgspec
import pytest

from retinue.models.script import CallTool, Fault, Say, ScriptedRequest
from retinue.runtime.completion import COMPLETE
from retinue.schema.agent import Binding, InputSpec, OutputSpec, Side
from retinue.schema.completion import Completion
from retinue.schema.events.runs import GraceStarted, MessageReceived, RunCompleted, RunStarted
from retinue.schema.events.steps import CallSettled, CallStarted, ModelAnswered, ModelAsked, ModelFailed
from retinue.schema.events.union import decode, encode
from retinue.testing.harness import log_of
from retinue.tools.function import tool
from support.agents import add, agent
from support.opening import OpenApp


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


def complete(**arguments: object) -> Say:
    return call(COMPLETE, **{"status": "SUCCESS", **arguments})


@pytest.mark.spec("RUN-02", "API-01")
async def test_a_run_asks_settles_calls_and_ends_with_the_reply(open_app: OpenApp) -> None:
    script = [call("add", a=1, b=2), Say(text="It is {{last_outcome}}.")]
    async with open_app(script, agents=[agent("calc", "add")], tools=[add]) as app:
        completion = await app.run("calc", "1 + 2?")

        assert completion.result == "It is 3."
        assert (completion.status, completion.reason, completion.steps) == ("SUCCESS", "goal", 2)
        assert [(c.tool, c.status) for c in completion.calls] == [("add", "ok")]
        kinds = [type(e).__name__ for e in await log_of(app, completion.thread)]
    assert kinds == [
        "ThreadStarted",
        "MessageReceived",
        "RunStarted",
        "ModelAsked",
        "ModelAnswered",
        "CallSettled",
        "ModelAsked",
        "ModelAnswered",
        "RunCompleted",
    ]


@pytest.mark.spec("RUN-06")
async def test_a_completion_survives_its_bytes(open_app: OpenApp) -> None:
    async with open_app([Say(text="Done.")], agents=[agent()]) as app:
        completion = await app.run("calc", "go")
    assert msgspec.json.decode(msgspec.json.encode(completion), type=Completion) == completion
    assert completion.agent == "calc"
    assert completion.usage.total > 0


@pytest.mark.spec("RUN-04")
async def test_explicit_completion_carries_status_confidence_and_metadata(open_app: OpenApp) -> None:
    script = [complete(result="All good.", confidence=0.9, requiresFollowup=True, metadata={"k": 1})]
    async with open_app(script, agents=[agent(completion="explicit")]) as app:
        completion = await app.run("calc", "go")
    assert completion.result == "All good."
    assert (completion.confidence, completion.requires_followup, completion.metadata) == (0.9, True, {"k": 1})


@pytest.mark.spec("RUN-04")
async def test_complete_task_is_an_alias_whose_status_defaults_to_success(open_app: OpenApp) -> None:
    async with open_app([call("complete_task", result="ok")], agents=[agent(completion="explicit")]) as app:
        completion = await app.run("calc", "go")
    assert (completion.result, completion.status) == ("ok", "SUCCESS")


@pytest.mark.spec("RUN-06", "DEF-11", "TOOL-04")
async def test_two_bad_completions_are_errors_and_the_third_is_a_typed_result(open_app: OpenApp) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    definition = agent(completion="explicit", output=OutputSpec(name="report", schema=schema))
    script = [complete(report={"n": "one"}), complete(report={}), complete(report={"n": 1})]
    async with open_app(script, agents=[definition]) as app:
        completion = await app.run("calc", "go")
        outcomes = [e.outcome.status for e in await log_of(app, completion.thread) if isinstance(e, CallSettled)]
    assert outcomes == ["error", "error", "ok"]
    assert completion.result == {"n": 1}


@pytest.mark.spec("RUN-06")
async def test_an_empty_completion_goes_back_to_the_model(open_app: OpenApp) -> None:
    script = [complete(result="  "), complete(result="now")]
    async with open_app(script, agents=[agent(completion="explicit")]) as app:
        completion = await app.run("calc", "go")
    assert (completion.result, [c.status for c in completion.calls]) == ("now", ["error", "ok"])


@pytest.mark.spec("RUN-05")
async def test_a_reply_without_completion_gets_one_recovery_turn_with_one_tool(open_app: OpenApp) -> None:
    offered: list[list[str]] = []

    def script(request: ScriptedRequest) -> Say:
        offered.append(list(request.tools))
        return Say(text="I think so.") if len(offered) == 1 else complete(result="yes")

    async with open_app(script, agents=[agent("calc", "add", completion="explicit")], tools=[add]) as app:
        completion = await app.run("calc", "go")
    assert set(offered[0]) > {"add", COMPLETE}
    assert offered[1:] == [[COMPLETE]]
    assert (completion.result, completion.reason, completion.recovered_from) == ("yes", "goal", "no_completion")


@pytest.mark.spec("RUN-05", "RUN-08")
async def test_at_max_steps_a_responding_agent_answers_without_tools(open_app: OpenApp) -> None:
    offered: list[int] = []

    def script(request: ScriptedRequest) -> Say:
        offered.append(len(request.tools))
        return call("add", a=len(offered), b=1) if request.tools else Say(text="Half of it.")

    async with open_app(script, agents=[agent("calc", "add", max_steps=2)], tools=[add]) as app:
        completion = await app.run("calc", "go")
    assert offered[-1] == 0
    assert (completion.result, completion.status, completion.recovered_from) == ("Half of it.", "PARTIAL", "max_steps")


@pytest.mark.spec("RUN-05")
async def test_a_recovery_turn_that_fails_too_ends_the_run(open_app: OpenApp) -> None:
    script = [Say(text="one"), Say(text="two")]
    async with open_app(script, agents=[agent(completion="explicit")]) as app:
        completion = await app.run("calc", "go")
        graces = [e for e in await log_of(app, completion.thread) if isinstance(e, GraceStarted)]
    assert len(graces) == 1
    assert (completion.status, completion.reason, completion.recovered_from) == ("FAILED", "no_completion", None)


@pytest.mark.spec("RUN-17")
async def test_calls_after_a_completion_are_skipped_and_a_second_completion_is_an_error(open_app: OpenApp) -> None:
    seen: list[int] = []

    @tool
    def note(n: int) -> str:
        """Note a number."""
        seen.append(n)
        return "noted"

    calls = (
        CallTool("note", {"n": 1}),
        CallTool(COMPLETE, {"result": "first", "status": "SUCCESS"}),
        CallTool("note", {"n": 2}),
        CallTool(COMPLETE, {"result": "second", "status": "SUCCESS"}),
    )
    async with open_app([Say(calls=calls)], agents=[agent("calc", "note", completion="explicit")], tools=[note]) as app:
        completion = await app.run("calc", "go")
    assert seen == [1]
    assert completion.result == "first"
    assert [c.status for c in completion.calls] == ["ok", "ok", "skipped", "error"]


@pytest.mark.spec("RUN-03", "RUN-17")
async def test_session_bindings_end_the_run_and_fail_beats_stop(open_app: OpenApp) -> None:
    side = Side(
        session_stop=Binding(name="approve", message_property="summary"),
        session_fail=Binding(name="reject", message_property="reason"),
    )
    both = Say(calls=(CallTool("approve", {"summary": "fine"}), CallTool("reject", {"reason": "broken"})))
    async with open_app({"one": [both], "two": [call("approve", summary="fine")]},
                        agents=[agent("one", side_a=side), agent("two", side_a=side)]) as app:  # fmt: skip
        stopped = await app.run("two", "go")
        assert (stopped.result, stopped.status) == ("fine", "SUCCESS")
        both_called = await app.run("one", "go")
    assert (both_called.status, both_called.result) == ("FAILED", "broken")


@pytest.mark.spec("RUN-03")
async def test_a_string_binding_hands_over_the_arguments_as_json(open_app: OpenApp) -> None:
    side = Side(session_stop=Binding(name="finish"))
    async with open_app([call("finish", a=1)], agents=[agent(side_a=side)]) as app:
        completion = await app.run("calc", "go")
    assert msgspec.json.decode(str(completion.result)) == {"a": 1}


@pytest.mark.spec("RUN-03")
async def test_a_bound_tool_that_exists_runs_first_and_nothing_stops_when_it_fails(open_app: OpenApp) -> None:
    tries: list[int] = []

    @tool
    def publish(text: str) -> str:
        """Publish."""
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "published"

    side = Side(session_stop=Binding(name="publish", message_property="text"))
    script = [call("publish", text="a"), call("publish", text="b")]
    async with open_app(script, agents=[agent("calc", "publish", side_a=side)], tools=[publish]) as app:
        completion = await app.run("calc", "go")
    assert (len(tries), completion.result) == (2, "b")


@pytest.mark.spec("RUN-03")
async def test_a_stop_tool_ends_the_turn_with_its_response_property(open_app: OpenApp) -> None:
    side = Side(stop_tool="done", stop_tool_response_property="answer")
    async with open_app([call("done", answer="42")], agents=[agent(side_a=side)]) as app:
        completion = await app.run("calc", "go")
    assert (completion.result, completion.reason) == ("42", "goal")


@pytest.mark.spec("RUN-09")
async def test_reads_run_at_once_and_outcomes_are_shown_in_call_order(open_app: OpenApp) -> None:
    both = asyncio.Event()
    running = 0

    @tool(effect="read")
    async def slow(name: str) -> str:
        """Wait for the sibling."""
        nonlocal running
        running += 1
        if running == 2:
            both.set()
        async with asyncio.timeout(5):
            await both.wait()
        if name == "first":
            await asyncio.sleep(0)
        return name

    shown: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        if request.step == 1:
            return Say(calls=(CallTool("slow", {"name": "first"}), CallTool("slow", {"name": "second"})))
        shown.extend(o.text for o in request.outcomes)
        return Say(text="ok")

    async with open_app(script, agents=[agent("calc", "slow")], tools=[slow]) as app:
        await app.run("calc", "go")
    assert shown == ["first", "second"]


@pytest.mark.spec("RUN-09", "RUN-11")
async def test_a_write_is_announced_in_the_log_before_it_runs_and_a_read_is_not(open_app: OpenApp) -> None:
    @tool
    def act() -> str:
        """Act."""
        return "done"

    calls = Say(calls=(CallTool("add", {"a": 1, "b": 1}), CallTool("act", {})))
    async with open_app([calls, Say(text="ok")], agents=[agent("calc", "add", "act")], tools=[add, act]) as app:
        completion = await app.run("calc", "go")
        log = await log_of(app, completion.thread)
    answered = next(e for e in log if isinstance(e, ModelAnswered))
    started = [e.call for e in log if isinstance(e, CallStarted)]
    assert started == [answered.parts[1].id]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]


@pytest.mark.spec("TOOL-04", "RUN-02")
async def test_bad_arguments_unknown_tools_and_crashes_are_outcomes(open_app: OpenApp) -> None:
    @tool(effect="read")
    def broken() -> str:
        """Break."""
        raise RuntimeError("boom")

    script = [call("add", a="x"), call("ad", a=1), call("broken"), Say(text="ok")]
    async with open_app(script, agents=[agent("calc", "add", "broken")], tools=[add, broken]) as app:
        completion = await app.run("calc", "go")
        texts = [e.outcome.text for e in await log_of(app, completion.thread) if isinstance(e, CallSettled)]
    assert completion.result == "ok"
    assert "do not fit" in texts[0]
    assert "Did you mean `add`?" in texts[1]
    assert [c.status for c in completion.calls] == ["error", "error", "error"]


@pytest.mark.spec("MOD-03")
async def test_a_transient_failure_is_tried_again_and_the_log_shows_each_attempt(open_app: OpenApp) -> None:
    script = [Say(text="at last", fault=Fault(kind="overloaded", transient=True, times=2))]
    async with open_app(script, agents=[agent()]) as app:
        completion = await app.run("calc", "go")
        log = await log_of(app, completion.thread)
    assert completion.result == "at last"
    assert [e.attempt for e in log if isinstance(e, ModelAsked)] == [1, 2, 3]
    assert len([e for e in log if isinstance(e, ModelFailed)]) == 2


@pytest.mark.spec("MOD-03")
async def test_when_a_provider_fails_for_good_the_next_is_asked(open_app: OpenApp) -> None:
    scripts = {
        "calc": [Say(text="never", fault=Fault(kind="error", text="down", times=None))],
        "spare": [Say(text="from the spare")],
    }
    async with open_app(scripts, agents=[agent(fallback_models=("spare",))]) as app:
        completion = await app.run("calc", "go")
    assert completion.result == "from the spare"


@pytest.mark.spec("RUN-08")
async def test_the_loop_guard_ends_a_run_that_nobody_can_be_asked_about(open_app: OpenApp) -> None:
    async with open_app(lambda _: call("add", a=1, b=1), agents=[agent("calc", "add")], tools=[add]) as app:
        completion = await app.run("calc", "go", people="none")
    assert (completion.status, completion.reason) == ("FAILED", "loop")
    assert "3 times" in (completion.error or "")


@pytest.mark.spec("RUN-07")
async def test_single_shot_asks_once_and_offers_no_tools(open_app: OpenApp) -> None:
    seen: list[int] = []

    def script(request: ScriptedRequest) -> Say:
        seen.append(len(request.tools))
        return Say(text="one shot")

    async with open_app(script, agents=[agent("calc", "add", execution_mode="single_shot")], tools=[add]) as app:
        completion = await app.run("calc", "go")
    assert (seen, completion.result, completion.steps) == ([0], "one shot", 1)


@pytest.mark.spec("RUN-15", "DEF-10")
async def test_the_prefix_and_the_templates_are_rendered_once_and_recorded(open_app: OpenApp) -> None:
    systems: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        systems.append(request.system)
        return call("add", a=1, b=1) if request.step == 1 else Say(text="ok")

    definition = agent(
        "calc",
        "add",
        use_default_prefix=True,
        prompt="Task: {{prompt}}. Target: ${target}. {{unknown}}",
        inputs=(InputSpec(name="target"),),
    )
    async with open_app(script, agents=[definition], tools=[add]) as app:
        completion = await app.run("calc", "look at {{agent_name}}", inputs={"target": "src"})
        started = next(e for e in await log_of(app, completion.thread) if isinstance(e, RunStarted))
        assert started.system["a"] == systems[0] == systems[1]
        assert f"Working directory: {app.workspace}" in systems[0]
    assert "Task: look at {{agent_name}}. Target: src. {{unknown}}" in systems[0]


@pytest.mark.spec("DEF-10", "DEF-11")
async def test_the_query_words_the_first_message_and_a_missing_input_is_refused_before_anything_runs(
    open_app: OpenApp,
) -> None:
    said: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        said.append(request.message)
        return Say(text="ok")

    definition = agent(query="Analyse ${target}", inputs=(InputSpec(name="target"),))
    async with open_app(script, agents=[definition]) as app:
        await app.run("calc", "whatever", inputs={"target": "src"})
        with pytest.raises(Exception, match="'target' is required"):
            await app.run("calc", "whatever")
    assert said == ["Analyse src"]


@pytest.mark.spec("RUN-13")
async def test_a_message_to_a_running_thread_is_injected_before_its_next_step(open_app: OpenApp) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        reached.set()
        async with asyncio.timeout(5):
            await go_on.wait()
        return "waited"

    def script(request: ScriptedRequest) -> Say:
        return call("wait") if request.step == 1 else Say(text=f"heard: {request.message}")

    async with open_app(script, agents=[agent("calc", "wait")], tools=[wait]) as app:
        thread = await app.start("calc", "go")
        async with asyncio.timeout(5):
            await reached.wait()
            await app.engine.send(thread, "and be brief", id="m1")
            await app.engine.send(thread, "and be brief", id="m1")
            go_on.set()
            completion = await app.engine.wait(thread)
        messages = [e for e in await log_of(app, thread) if isinstance(e, MessageReceived)]
    assert completion.result == "heard: and be brief"
    assert len(messages) == 2


@pytest.mark.spec("RUN-13")
async def test_a_message_to_an_idle_thread_starts_another_run_with_the_history(open_app: OpenApp) -> None:
    async with open_app([Say(text="one"), Say(text="two")], agents=[agent()]) as app:
        first = await app.run("calc", "hello")
        head = (await app.engine.state(first.thread)).head  # pyright: ignore[reportArgumentType]
        await app.engine.send(first.thread, "again")  # pyright: ignore[reportArgumentType]
        second = await app.engine.wait(first.thread, after=head)  # pyright: ignore[reportArgumentType]
        runs = [e.run for e in await log_of(app, first.thread) if isinstance(e, RunStarted)]
    assert (second.result, runs) == ("two", [1, 2])


@pytest.mark.spec("RUN-01", "OBS-01")
async def test_every_event_of_a_log_survives_its_bytes(open_app: OpenApp) -> None:
    async with open_app([call("add", a=1, b=2), Say(text="3")], agents=[agent("calc", "add")], tools=[add]) as app:
        completion = await app.run("calc", "go")
        log = await log_of(app, completion.thread)
    assert [decode(encode(e)) for e in log] == log
    assert isinstance(log[-1], RunCompleted)
