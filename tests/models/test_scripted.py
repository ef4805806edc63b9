"""The scripted model: answers in order, functions, files, faults, and where it stands after a restart."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from retinue.models.script import CallTool, Fault, Item, Say, ScriptedRequest, script_from_file
from retinue.models.scripted import ScriptedModel, ScriptedModels
from retinue.ports.model import Answer, Delta, Head, Model, Models, Request
from retinue.schema.agent import AgentDefinition
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError, SettingsError
from retinue.schema.ids import AgentId, CallId
from retinue.schema.message import Call, Outcome, Text, Thinking, Turn, calls_of, text_of

pytestmark = pytest.mark.spec("MOD-04")


def user(text: str) -> Turn:
    return Turn(role="user", parts=(Text(text=text),))


def assistant(text: str) -> Turn:
    return Turn(role="assistant", parts=(Text(text=text),))


def outcome(text: str, tool: str = "bash") -> Turn:
    return Turn(role="user", parts=(Outcome(call=CallId("c"), tool=tool, text=text),))


def request(model: Model, *turns: Turn, message_id: str | None = None, stream: bool = True) -> Request:
    head = model.encode_head(Head(system="You are a test."))
    return Request(head=head, turns=[model.encode_turn(t) for t in turns], message_id=message_id, stream=stream)


async def said(model: Model, *turns: Turn, message_id: str | None = None) -> str:
    return text_of((await model.ask(request(model, *turns, message_id=message_id))).parts)


async def test_a_list_gives_its_answers_in_order() -> None:
    model = ScriptedModel(["one", Say("two")])

    assert await said(model, user("a")) == "one"
    assert await said(model, user("a"), assistant("one"), user("b")) == "two"


async def test_a_restarted_process_goes_on_where_the_request_stands() -> None:
    script: Sequence[Item] = ["one", "two", "three"]
    turns = (user("a"), assistant("one"), user("b"))

    assert [await said(ScriptedModel(script), *turns) for _ in range(2)] == ["two", "two"]


async def test_an_exhausted_script_says_what_was_asked_and_how_many_answers_there_were() -> None:
    model = ScriptedModel(["one"])

    with pytest.raises(ModelError) as caught:
        await said(model, user("a"), assistant("one"), user("and then?"))

    assert str(caught.value) == (
        "the script has no answer for step 2 of its agent: none of 0 rules fits and there are 1 answers in order; "
        "the newest message was 'and then?'"
    )
    assert not caught.value.transient


async def test_an_answer_holds_thinking_text_calls_and_usage() -> None:
    model = ScriptedModel(
        [Say("Looking.", thinking="Hm.", calls=[CallTool("read", {"path": "a"})], usage=Usage(input=7, output=3))]
    )

    assert await model.ask(request(model, user("a"))) == Answer(
        parts=(
            Thinking(text="Hm."),
            Text(text="Looking."),
            Call(id=CallId(""), tool="read", arguments='{"path":"a"}'),
        ),
        finish="calls",
        usage=Usage(input=7, output=3),
        raw_finish="scripted",
    )


async def test_broken_arguments_are_sent_as_they_are() -> None:
    model = ScriptedModel([CallTool("read", '{"path": ')])

    assert calls_of((await model.ask(request(model, user("a")))).parts)[0].arguments == '{"path": '


async def test_text_streams_word_by_word_or_as_told() -> None:
    async def deltas(say: Say) -> list[Delta]:
        seen: list[Delta] = []
        model = ScriptedModel([say])
        await model.ask(request(model, user("a")), seen.append)
        return seen

    assert await deltas(Say("a bc\nd ", thinking="so", calls=[CallTool("t")])) == [
        Delta(kind="thinking", text="so"),
        *(Delta(kind="text", text=t) for t in ("a", " bc", "\nd", " ")),
        Delta(kind="call", text="t"),
    ]
    assert [d.text for d in await deltas(Say("abcdefg", chunks=3))] == ["abc", "def", "g"]
    assert [d.text for d in await deltas(Say("abc", chunks=["a", "bc"]))] == ["a", "bc"]


async def test_a_request_that_does_not_stream_has_no_deltas() -> None:
    seen: list[Delta] = []
    model = ScriptedModel(["a b c"])
    await model.ask(request(model, user("a"), stream=False), seen.append)

    assert seen == []


async def test_a_function_sees_the_request_and_the_message_id() -> None:
    seen: list[ScriptedRequest] = []

    def script(asked: ScriptedRequest) -> Say:
        seen.append(asked)
        return Say(f"{asked.message_id}: {asked.message}")

    model = ScriptedModel(script)
    turns = (user("hello"), assistant("hi"), outcome("42"))

    assert await said(model, *turns, message_id="m-1") == "m-1: hello"
    assert (seen[0].system, seen[0].turns, seen[0].step, seen[0].step_of_message) == ("You are a test.", turns, 2, 2)
    assert [o.text for o in seen[0].outcomes] == ["42"]


async def test_an_async_function_may_wait() -> None:
    async def script(asked: ScriptedRequest) -> str:
        await asyncio.sleep(0)
        return asked.message.upper()

    assert await said(ScriptedModel(script), user("hello")) == "HELLO"


async def test_a_fault_comes_once_and_then_the_answer() -> None:
    model = ScriptedModel([Say("one", fault=Fault("rate_limit", retry_after=2.5, times=2)), Fault("overloaded"), "two"])

    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await said(model, user("a"))
        assert (caught.value.status, caught.value.transient, caught.value.retry_after) == (429, True, 2.5)
    assert await said(model, user("a")) == "one"
    later = (user("a"), assistant("one"), user("b"))
    with pytest.raises(ModelError) as caught:
        await said(model, *later)
    assert (caught.value.status, caught.value.transient) == (529, True)
    assert await said(model, *later) == "two"


async def test_a_fault_is_raised_in_every_thread() -> None:
    model = ScriptedModel([Say("one", fault="rate_limit")])

    for message in ("m1", "m2"):
        with pytest.raises(ModelError):
            await said(model, user("a"), message_id=message)
        assert await said(model, user("a"), message_id=message) == "one"


async def test_a_fault_without_end_is_raised_every_time() -> None:
    model = ScriptedModel([Fault("error", "the disk is full", times=None, status=500, transient=True)])

    for _ in range(3):
        with pytest.raises(ModelError, match="the disk is full") as caught:
            await said(model, user("a"))
        assert (caught.value.status, caught.value.transient) == (500, True)


async def test_a_cut_stream_shows_its_first_chunks() -> None:
    model = ScriptedModel([Say("one two three", fault=Fault("cut", after=2))])
    seen: list[Delta] = []

    with pytest.raises(ModelError) as caught:
        await model.ask(request(model, user("a")), seen.append)

    assert caught.value.transient
    assert [d.text for d in seen] == ["one", " two"]
    assert await said(model, user("a")) == "one two three"


async def test_a_refusal_is_an_answer() -> None:
    model = ScriptedModel([Fault("refuse", "I won't.")])
    answer = await model.ask(request(model, user("a")))

    assert (text_of(answer.parts), answer.finish) == ("I won't.", "refusal")
    assert await said(ScriptedModel([Fault("refuse")]), user("a")) == "I can't help with that."


async def test_a_hanging_model_ends_when_it_is_cancelled() -> None:
    model = ScriptedModel([Fault("hang")])
    task = asyncio.create_task(model.ask(request(model, user("a"))))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_latency_and_pace_are_slept_on_the_given_clock() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.slept: list[float] = []

        def now(self) -> float:
            return 0.0

        def monotonic(self) -> float:
            return 0.0

        def new_id(self) -> str:
            return ""

        def random(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    clock = Recorder()
    model = ScriptedModel([Say("a b", latency=2.0, pace=0.5)], clock=clock)
    await model.ask(request(model, user("a")), lambda _: None)

    assert clock.slept == [2.0, 0.5, 0.5]


async def test_usage_is_estimated_and_priced() -> None:
    model = ScriptedModel(["x" * 400], prices=(10, 100))
    answer = await model.ask(request(model, user("a" * 4000)))

    assert answer.usage.output == 101
    assert 1000 < answer.usage.input < 1200
    assert model.price(Usage(input=2, output=3)) == 320
    assert ScriptedModel([]).price(Usage(input=2, output=3)) == 0


TEAM = """
rules:
  - when: {agent: coder, step: 1}
    answer: {calls: [{tool: task, arguments: {agent: explore, prompt: "find {{message}}"}}]}
  - when: {agent: coder, tool_result: task}
    answer: "It said: {{last_outcome}}"
  - when: {agent: explore}
    answers: [{calls: [{tool: grep, arguments: {pattern: "{{message}}"}}]}, "Found it."]
  - when: {contains: weather}
    answers: [Where are you?, Sunny.]
  - when: {regex: "^(hi|hello)", system_contains: test}
    answer: Hello, {{unknown}}.
  - when: {message_id_prefix: cron-}
    answer: Tick {{message_id}}.
answers: [First., {text: Second., fault: {kind: rate_limit, retry_after: 1}}]
"""


@pytest.fixture
def team(tmp_path: Path) -> ScriptedModels:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    return ScriptedModels(script_from_file(path))


def agent(name: str, model: str | None = None) -> AgentDefinition:
    return AgentDefinition(id=AgentId(name), name=name, model=model)


async def test_one_file_scripts_a_team(team: ScriptedModels) -> None:
    coder = team.resolve(agent("coder"))[0].model
    explore = team.resolve(agent("explore"))[0].model
    ask = user('the "thing"')

    first = await coder.ask(request(coder, ask))
    assert calls_of(first.parts)[0].arguments == '{"agent":"explore","prompt":"find the \\"thing\\""}'
    second = await explore.ask(request(explore, user("x")))
    assert calls_of(second.parts)[0].arguments == '{"pattern":"x"}'
    assert await said(explore, user("x"), assistant("…"), outcome("a.py", "grep")) == "Found it."
    assert await said(coder, ask, assistant("…"), outcome("Found it.", "task")) == "It said: Found it."


async def test_a_model_that_does_not_know_its_agent_says_so(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text("rules: [{when: {agent: coder}, answer: Hi}]")

    with pytest.raises(ModelError) as caught:
        await said(ScriptedModel(path), user("a"))

    assert "can't tell agents apart" in (caught.value.hint or "")


async def test_rules_match_on_the_message_its_id_and_the_system_prompt(team: ScriptedModels) -> None:
    model = team.resolve(agent("other"))[0].model

    assert await said(model, user("hello you")) == "Hello, {{unknown}}."
    assert await said(model, user("go"), message_id="cron-7") == "Tick cron-7."
    assert await said(model, user("go")) == "First."


async def test_a_rule_on_the_message_counts_from_that_message(team: ScriptedModels) -> None:
    model = team.resolve(agent("other"))[0].model
    before = (user("go"), assistant("First."), user("the weather?"))

    assert await said(model, *before) == "Where are you?"
    assert await said(model, *before, assistant("…"), outcome("here")) == "Sunny."


async def test_a_json_file_is_a_script_too(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"answers": ["one", {"text": "two", "finish": "length"}]}')
    model = ScriptedModel(path)

    assert await said(model, user("a")) == "one"
    assert (await model.ask(request(model, user("a"), assistant("one"), user("b")))).finish == "length"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("answers: [{txt: a}]", "unknown field `txt` - at `$.answers[0]`"),
        ("rules: [{when: {contain: a}, answer: b}]", "$.rules[0].when"),
        ("answers: [{fault: explode}]", "$.answers[0].fault"),
        ("answers: [", "expected"),
    ],
)
def test_a_file_that_is_no_script_is_an_error_that_names_the_place(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)

    with pytest.raises(SettingsError) as caught:
        script_from_file(path)

    assert str(caught.value).startswith(f"{path}: not a script: ")
    assert part in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't read the script"):
        script_from_file(tmp_path / "none.yaml")


async def test_agents_and_models_can_have_their_own_scripts() -> None:
    models: Models = ScriptedModels({"coder": ["coder"], "x/big": ["big"], "x/small": ["small"], "*": ["rest"]})

    async def first(definition: AgentDefinition, asked: str | None = None) -> tuple[str, str]:
        model = models.resolve(definition, asked=asked)[0].model
        return model.name, await said(model, user("a"))

    assert await first(agent("coder")) == ("scripted/script", "coder")
    assert await first(agent("coder"), asked="x/big") == ("x/big", "big")
    assert await first(agent("other", model="x/small")) == ("x/small", "small")
    assert await first(agent("other", model="x/unknown")) == ("scripted/script", "rest")


def test_fallback_models_are_further_candidates() -> None:
    models = ScriptedModels({"x/big": [Fault("overloaded", times=None)], "x/small": ["small"]})
    definition = AgentDefinition(id=AgentId("a"), name="a", model="x/big", fallback_models=("x/small", "x/none"))

    assert [c.model.name for c in models.resolve(definition)] == ["x/big", "x/small"]
    assert models.resolve(definition)[0] is models.resolve(definition)[0]


def test_an_agent_without_a_script_is_an_error_that_lists_them() -> None:
    with pytest.raises(ModelError, match="no script for agent 'b'") as caught:
        ScriptedModels({"a": ["x"]}).resolve(agent("b"))

    assert caught.value.hint == "there are scripts for a; '*' would match every agent"
