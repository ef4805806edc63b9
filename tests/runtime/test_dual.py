"""Two AI sides: what each is sent, in which order turns and sessions stop, and S4's example from one file."""

from collections.abc import Sequence

import pytest

from retinue.definition.load import load_text
from retinue.models.script import Say, ScriptedRequest
from retinue.models.scripted import ScriptedModel, ScriptedModels
from retinue.schema.agent import AgentDefinition, Binding, Prompt, Side
from retinue.schema.events.runs import TurnEnded
from retinue.schema.events.steps import ModelAsked
from retinue.schema.ids import AgentId
from retinue.schema.message import Call, Outcome, Part, Text, text_of
from retinue.testing.harness import log_of
from retinue.tools.function import tool
from support.agents import add, agent
from support.opening import OpenApp
from support.tree import call, calls, outcomes

EXAMPLE = """---
name: asset_subagent
description: Makes assets.
type: dual_ai
max_session_turns: 40
expose_as_tool: true
tool_description: Generate and QA top-down game assets.
use_default_prefix: false
permissions: {default: allow}
side_a:
  label: Worker
  stop_on_response: true
  session_fail: {name: fail_asset, message_property: reason, attachments_property: attachments}
side_b:
  label: Reviewer
  prompt: asset_reviewer
  stop_on_response: false
  session_stop: {name: approve_asset, message_property: summary, attachments_property: attachments}
  session_status: {name: update_asset_status, message_property: status}
---
You make assets.
"""


def example() -> AgentDefinition:
    reviewer = Prompt(name="asset_reviewer", text="You review assets.")
    found = load_text(EXAMPLE, file="asset_subagent.md", id=AgentId("asset_subagent"), prompts=lambda _: reviewer)
    assert found.definition is not None, found.problems
    return found.definition


@pytest.mark.spec("SUB-05", "DEF-01")
@pytest.mark.parametrize("ending", ["approves", "fails"])
async def test_s4s_example_loads_from_one_file_and_runs(open_app: OpenApp, ending: str) -> None:
    sent: list[tuple[str, list[tuple[str, str]]]] = []

    def script(request: ScriptedRequest) -> Say:
        sent.append((request.system.strip(), [(t.role, text_of(t.parts)) for t in request.turns]))
        if "approve_asset" in request.tools:
            if not request.outcomes:
                return call("update_asset_status", status="looking")
            return call("approve_asset", summary="a fine tree", attachments=[])
        return call("fail_asset", reason="no ink", attachments=[]) if ending == "fails" else Say(text="a tree")

    async with open_app(script, agents=[example()]) as app:
        completion = await app.run("asset_subagent", "draw a tree")
    if ending == "fails":
        assert (completion.status, completion.reason, completion.error) == ("FAILED", "failed_binding", "no ink")
        return
    assert (completion.status, completion.reason, completion.result) == ("SUCCESS", "goal", "a fine tree")
    opening = "(The conversation starts here.)"
    reviewed = [("user", opening), ("assistant", "draw a tree"), ("user", "a tree")]
    assert sent == [
        ("You make assets.", [("user", "draw a tree")]),
        ("You review assets.", reviewed),
        ("You review assets.", [*reviewed, ("assistant", ""), ("user", "")]),
    ]


@pytest.mark.spec("SUB-05", "RUN-04")
@pytest.mark.parametrize(
    ("made", "status", "reason"),
    [
        (["stop"], "SUCCESS", "goal"),
        (["fail"], "FAILED", "failed_binding"),
        (["stop", "fail"], "FAILED", "failed_binding"),
        (["fail", "stop"], "FAILED", "failed_binding"),
        (["turn", "stop"], "SUCCESS", "goal"),
        (["stop", "turn"], "SUCCESS", "goal"),
        (["turn", "fail"], "FAILED", "failed_binding"),
        (["fail", "turn"], "FAILED", "failed_binding"),
        (["stop", "turn", "fail"], "FAILED", "failed_binding"),
        (["turn"], "PARTIAL", "max_session_turns"),
        ([], "PARTIAL", "max_session_turns"),
    ],
)
async def test_stops_of_one_step_are_judged_in_s4s_order_whichever_was_called_first(
    open_app: OpenApp, made: list[str], status: str, reason: str
) -> None:
    """S4 §5: session bindings (fail beats stop), the stop tool, a response, the limits."""
    side = Side(
        stop_tool="turn",
        session_stop=Binding(name="stop", message_property="text"),
        session_fail=Binding(name="fail", message_property="text"),
    )
    pair = agent("pair", type="dual_ai", max_session_turns=1, side_a=side, side_b=Side())
    both = calls(*((name, {"text": name}) for name in made)) if made else Say(text="a response")
    async with open_app(lambda _: both, agents=[pair]) as app:
        completion = await app.run("pair", "go")
        log = await log_of(app, completion.thread)
    assert (completion.status, completion.reason) == (status, reason)
    assert len(outcomes(log)) == len(made)
    assert [e.why for e in log if isinstance(e, TurnEnded)] == {"turn": ["stop_tool"], "": ["response"]}.get(
        "".join(made), []
    )


def shown(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Call():
            return f"{part.tool}({part.arguments})"
        case Outcome():
            return f"{part.tool} → {part.status}: {part.text}"
        case _:
            return type(part).__name__


def worker_and_reviewer(**keys: object) -> AgentDefinition:
    return agent(
        "pair",
        "add",
        type="dual_ai",
        prompts={
            "a": Prompt(name="a", text="You work.", model="small/one"),
            "b": Prompt(name="b", text="You review.", model="large/two", tools=agent("x").tools),
        },
        side_a=Side(prompt="a", session_fail=Binding(name="give_up", message_property="why")),
        side_b=Side(
            prompt="b",
            session_stop=Binding(name="approve", message_property="summary"),
            session_status=Binding(name="status", message_property="now"),
        ),
        **{"max_session_turns": 9, **keys},
    )


class Transcript:
    """Two models that say what they are told to, and all that each was sent."""

    def __init__(self, one: Sequence[Say], two: Sequence[Say]) -> None:
        self.sent: list[tuple[str, str, list[str]]] = []
        self.offered: dict[str, set[str]] = {}
        self.models = ScriptedModels({"small/one": self._model("one", one), "large/two": self._model("two", two)})

    def _model(self, name: str, answers: Sequence[Say]) -> ScriptedModel:
        def answer(request: ScriptedRequest) -> Say:
            lines = [f"{turn.role}: {' | '.join(map(shown, turn.parts))}" for turn in request.turns]
            self.sent.append((name, request.system, lines))
            self.offered[name] = set(request.tools)
            return answers[sum(who == name for who, _, _ in self.sent) - 1]

        return ScriptedModel(answer)


@pytest.mark.spec("SUB-05", "RUN-03", "RUN-04")
async def test_what_each_sides_model_is_sent_word_for_word(open_app: OpenApp) -> None:
    """Each is the assistant of its own story, on its own model, and sees neither calls nor outcomes of the other."""
    heard = Transcript(
        one=[
            Say(text="Let me see.", calls=call("add", a=1, b=2).calls),
            Say(text="It is 3."),
            Say(text="It is three."),
        ],
        two=[
            Say(text="Reading.", calls=call("status", now="reading").calls),
            Say(text="In words, please."),
            call("approve", summary="three it is"),
        ],
    )
    async with open_app(heard.models, agents=[worker_and_reviewer()], tools=[add]) as app:
        completion = await app.run("pair", "What is 1 + 2?")
        log = await log_of(app, completion.thread)
    assert (completion.status, completion.result) == ("SUCCESS", "three it is")
    assert [(e.side, e.model) for e in log if isinstance(e, ModelAsked)] == [
        ("a", "small/one"),
        ("a", "small/one"),
        ("b", "large/two"),
        ("b", "large/two"),
        ("a", "small/one"),
        ("b", "large/two"),
    ]
    first = ["user: What is 1 + 2?"]
    counted = [*first, 'assistant: Let me see. | add({"a":1,"b":2})', "user: add → ok: 3"]
    opened = ["user: (The conversation starts here.)", "assistant: What is 1 + 2?", "user: Let me see. | It is 3."]
    read = [*opened, 'assistant: Reading. | status({"now":"reading"})', "user: status → ok: Status published."]
    assert heard.sent == [
        ("one", "You work.", first),
        ("one", "You work.", counted),
        ("two", "You review.", opened),
        ("two", "You review.", read),
        ("one", "You work.", [*counted, "assistant: It is 3.", "user: Reading. | In words, please."]),
        ("two", "You review.", [*read, "assistant: In words, please.", "user: It is three."]),
    ]
    assert "add" in heard.offered["one"]
    assert "give_up" in heard.offered["one"]
    assert not {"add", "give_up"} & heard.offered["two"]
    assert {"approve", "status"} <= heard.offered["two"]


@pytest.mark.spec("SUB-05", "RUN-03")
@pytest.mark.parametrize("stops_on_response", [True, False])
async def test_a_side_that_does_not_stop_on_response_goes_on_until_a_limit_ends_its_turn(
    open_app: OpenApp, stops_on_response: bool
) -> None:
    """Limits come last: the side's steps, then the turns of the session."""
    pair = agent(
        "pair",
        type="dual_ai",
        max_session_turns=2,
        side_a=Side(stop_on_response=stops_on_response, max_steps=3),
        side_b=Side(),
    )
    async with open_app(lambda r: Say(text=f"{r.step}"), agents=[pair]) as app:
        completion = await app.run("pair", "go")
        log = await log_of(app, completion.thread)
    asked = "".join(e.side for e in log if isinstance(e, ModelAsked))
    assert [e.why for e in log if isinstance(e, TurnEnded)] == (
        ["response", "response"] if stops_on_response else ["max_steps", "response"]
    )
    assert asked == ("ab" if stops_on_response else "aaab")
    assert (completion.status, completion.reason) == ("PARTIAL", "max_session_turns")


@pytest.mark.spec("SUB-05", "RUN-03")
@pytest.mark.parametrize(("property", "told"), [("answer", "forty-two"), (None, "noted")])
async def test_a_stop_tool_hands_the_other_side_its_outcome_or_the_property_it_names(
    open_app: OpenApp, property: str | None, told: str
) -> None:
    heard: list[str] = []

    @tool(effect="read")
    def hand_in(answer: str) -> str:
        """Hand in."""
        return "noted"

    def script(request: ScriptedRequest) -> Say:
        if "hand_in" in request.tools:
            return call("hand_in", answer="forty-two")
        heard.append(text_of(request.turns[-1].parts))
        return call("done", text="ok")

    pair = agent(
        "pair",
        "hand_in",
        type="dual_ai",
        max_session_turns=4,
        prompts={"b": Prompt(name="b", text="B", tools=agent("x").tools)},
        side_a=Side(stop_tool="hand_in", stop_tool_response_property=property),
        side_b=Side(prompt="b", session_stop=Binding(name="done", message_property="text")),
    )
    async with open_app(script, agents=[pair], tools=[hand_in]) as app:
        completion = await app.run("pair", "go")
    assert heard == [told]
    assert completion.result == "ok"


@pytest.mark.spec("SUB-05")
def test_a_second_side_is_required_and_a_missing_turn_cap_is_a_warning() -> None:
    text = "---\nname: pair\ndescription: Two.\ntype: dual_ai\n{more}---\nWork.\n"
    prompt = Prompt(name="reviewer", text="Review.")
    lacking, uncapped = (
        load_text(text.format(more=more), file="pair.md", id=AgentId("pair"), prompts=lambda _: prompt)
        for more in ("", "side_b: {prompt: reviewer}\n")
    )
    assert lacking.definition is None
    assert any("side_b" in str(problem) for problem in lacking.problems)
    assert uncapped.definition is not None
    assert any("max_session_turns" in str(problem) for problem in uncapped.problems)


@pytest.mark.spec("SUB-05")
async def test_without_a_cap_the_session_ends_after_forty_turns(open_app: OpenApp) -> None:
    pair = agent("pair", type="dual_ai", side_a=Side(), side_b=Side())
    async with open_app(lambda _: Say(text="and you?"), agents=[pair]) as app:
        completion = await app.run("pair", "go")
    assert (completion.reason, completion.steps) == ("max_session_turns", 40)
