"""Two AI sides: what each is sent, in which order turns and sessions stop, and S4's example from one file."""

import pytest

from retinue.definition.load import load_text
from retinue.models.script import Say, ScriptedRequest
from retinue.schema.agent import AgentDefinition, Binding, Prompt, Side
from retinue.schema.events.children import FileAttached
from retinue.schema.ids import AgentId
from retinue.schema.message import text_of
from retinue.testing.harness import log_of
from support.agents import add, agent
from support.opening import OpenApp
from support.tree import call, calls

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
        (["stop", "fail"], "SUCCESS", "goal"),
        (["fail", "stop"], "FAILED", "failed_binding"),
        (["turn", "stop"], "PARTIAL", "max_session_turns"),
    ],
)
async def test_a_step_ends_by_the_first_binding_that_was_called(
    open_app: OpenApp, made: list[str], status: str, reason: str
) -> None:
    """S4 §5: session bindings, then stop tools, then responses, then limits; what comes after an end is skipped."""
    side = Side(
        stop_tool="turn",
        session_stop=Binding(name="stop", message_property="text"),
        session_fail=Binding(name="fail", message_property="text"),
    )
    pair = agent("pair", type="dual_ai", max_session_turns=1, side_a=side, side_b=Side())
    both = calls(*((name, {"text": name}) for name in made))
    async with open_app(lambda _: both, agents=[pair]) as app:
        completion = await app.run("pair", "go")
    assert (completion.status, completion.reason) == (status, reason)


@pytest.mark.spec("SUB-05")
async def test_both_sides_run_their_own_prompts_tools_and_models(open_app: OpenApp) -> None:
    seen: dict[str, bool] = {}

    def script(request: ScriptedRequest) -> Say:
        seen[request.system] = "add" in request.tools
        return call("stop") if request.system == "B" else Say(text="x")

    pair = agent(
        "pair",
        "add",
        type="dual_ai",
        max_session_turns=4,
        prompts={
            "a": Prompt(name="a", text="A", model="scripted/one"),
            "b": Prompt(name="b", text="B", model="scripted/two", tools=agent("x").tools),
        },
        side_a=Side(prompt="a"),
        side_b=Side(prompt="b", session_stop=Binding(name="stop")),
    )
    async with open_app(script, agents=[pair], tools=[add]) as app:
        completion = await app.run("pair", "go")
        files = [e for e in await log_of(app, completion.thread) if isinstance(e, FileAttached)]
    assert seen == {"A": True, "B": False}
    assert completion.result == "{}"
    assert files == []
