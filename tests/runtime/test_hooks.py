"""Hooks: they see and change what passes, what they change is logged, and a failing one changes nothing."""

import msgspec
import pytest

from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.ports.tool import Result
from retinue.runtime.context import build
from retinue.runtime.hooks import Hook
from retinue.schema import inbox
from retinue.schema.events.steps import CallSettled, HistoryChanged, HookFailed
from retinue.schema.message import Text, Turn, text_of
from retinue.testing.harness import log_of
from support.agents import add, agent
from support.opening import OpenApp

pytestmark = pytest.mark.spec("OBS-02")


def shout(message: inbox.Message, _: object) -> inbox.Message:
    parts = tuple(Text(text=p.text.upper()) if isinstance(p, Text) else p for p in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def hide_numbers(turns: tuple[Turn, ...], _: object) -> tuple[Turn, ...]:
    def hidden(turn: Turn) -> Turn:
        parts = tuple(
            msgspec.structs.replace(p, text=p.text.replace("4711", "####")) if isinstance(p, Text) else p
            for p in turn.parts
        )
        return Turn(role=turn.role, parts=parts)

    return tuple(hidden(turn) for turn in turns)


async def test_message_system_and_result_hooks_change_what_is_stored(open_app: OpenApp) -> None:
    heard: list[tuple[str, str]] = []

    def script(request: ScriptedRequest) -> Say:
        heard.append((request.system, request.message))
        return Say(calls=(CallTool("add", {"a": 1, "b": 1}),)) if request.step == 1 else Say(text="done")

    def soften(result: Result, _: object) -> Result:
        return msgspec.structs.replace(result, text=f"about {result.text}")

    def politely(system: str, _: object) -> str:
        return f"{system} Be polite."

    hooks = [
        Hook(id="shout", kind="before_create_message", run=shout),
        Hook(id="polite", kind="after_system_message", run=politely),
        Hook(id="soften", kind="before_store_tool_result", run=soften),
    ]
    definition = agent("calc", "add", hooks=("shout", "polite", "soften"))
    async with open_app(script, agents=[definition], tools=[add], hooks=hooks) as app:
        completion = await app.run("calc", "go")
        log = await log_of(app, completion.thread)
    assert heard[0] == ("You are calc. Be polite.", "GO")
    assert [e.outcome.text for e in log if isinstance(e, CallSettled)] == ["about 2"]


async def test_a_history_hook_changes_what_the_model_is_sent_and_the_log_rebuilds_it(open_app: OpenApp) -> None:
    sent: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        sent.append(" ".join(text_of(turn.parts) for turn in request.turns))
        return Say(calls=(CallTool("add", {"a": 1, "b": 1}),)) if request.step == 1 else Say(text="my pin is 4711")

    hooks = [Hook(id="hide", kind="filter_messages", run=hide_numbers)]
    async with open_app(script, agents=[agent("calc", "add", hooks=("hide",))], tools=[add], hooks=hooks) as app:
        completion = await app.run("calc", "pin 4711")
        log = await log_of(app, completion.thread)
        model = app.engine.runtime.models.resolve(app.pin("calc").definition)[0].model
    assert sent == ["pin ####", "pin ####  "]
    assert [e.turn for e in log if isinstance(e, HistoryChanged)] == [0]
    rebuilt = build(model, "a", log)
    assert b"####" in b"".join(f.data for f in rebuilt.request_turns())


async def test_a_failing_hook_is_logged_and_the_data_goes_on_unchanged(open_app: OpenApp) -> None:
    def broken(message: inbox.Message, _: object) -> inbox.Message:
        raise RuntimeError("boom")

    def wrong(message: inbox.Message, _: object) -> object:
        return "not a message"

    hooks = [
        Hook(id="broken", kind="before_create_message", run=broken),
        Hook(id="wrong", kind="before_create_message", run=wrong),
    ]
    definition = agent(hooks=("broken", "wrong", "nobody"))
    async with open_app(lambda r: Say(text=r.message), agents=[definition], hooks=hooks) as app:
        completion = await app.run("calc", "hello")
        failed = [e for e in await log_of(app, completion.thread) if isinstance(e, HookFailed)]
    assert completion.result == "hello"
    assert [(f.hook, "boom" in f.error) for f in failed] == [("broken", True), ("wrong", False)]


async def test_thread_and_subagent_hooks_see_what_was_created(open_app: OpenApp) -> None:
    seen: list[str] = []

    def created(thread: object, _: object) -> None:
        seen.append(type(thread).__name__)

    hooks = [
        Hook(id="thread", kind="after_thread_created", run=created),
        Hook(id="child", kind="after_subagent_created", run=created),
    ]
    boss = agent("lead", allowed_agents=("worker",), can_spawn_subagents=True, hooks=("thread", "child"))
    done = Say(calls=(CallTool("complete_task", {"result": "ok"}),))
    ask = Say(calls=(CallTool("call_agent", {"agent_name": "worker", "input": "x", "context_scope": "NONE"}),))
    scripts = {"lead": [ask, Say(text="done")], "worker": [done]}
    async with open_app(scripts, agents=[boss, agent("worker")], hooks=hooks) as app:
        await app.run("lead", "go")
    assert seen == ["ThreadStarted", "str"]
