"""Variables: who sees them, what waits for them, and that they are nowhere to be read."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from retinue.app.retinue import Retinue
from retinue.app.settings_file import load_settings
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.models.scripted import ScriptedModels
from retinue.ports.tool import ToolContext
from retinue.runtime.completion import COMPLETE
from retinue.runtime.follow import Happened
from retinue.schema.agent import AgentDefinition, Immediate, Prompt, Resumable, Side, Subagent
from retinue.schema.events.children import ChildStarted, VariablesRequested
from retinue.schema.events.steps import CallSettled
from retinue.schema.ids import ThreadId
from retinue.testing.harness import QUICK, log_of
from retinue.tools.function import tool
from support.agents import agent
from support.opening import OpenApp
from support.tree import finished, until

SECRET = "tok-5f1d9a-canary"


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


seen: dict[str, str | None] = {}


@tool(effect="read")
def peek(who: str, context: ToolContext) -> str:
    """Look at the variable."""
    seen[who] = context.env.get("TOKEN")
    return "looked"


def script(request: ScriptedRequest) -> Say:
    if request.agent == "worker":
        return call("peek", who="worker") if request.step == 1 else call(COMPLETE, result="ok", status="SUCCESS")
    if request.step == 1:
        return call("subagent_create", agent="worker", name="w", message="go")
    return Say(text="done")


def agents() -> list[AgentDefinition]:
    config = Subagent(name="worker", blocking=False, resumable=Resumable())
    return [
        agent("lead", subagents=(config,), can_spawn_subagents=True),
        agent("worker", "peek", env={"TOKEN": ""}),
    ]


@pytest.mark.spec("SUB-11", "SUB-17")
async def test_missing_variables_defer_the_child_until_they_are_given_and_stay_sealed(
    open_app: OpenApp, tmp_path: Path
) -> None:
    seen.clear()
    async with open_app({"*": script}, agents=agents(), tools=[peek]) as app:
        completion = await app.run("lead", "go")
        thread = ThreadId(completion.thread)
        log = await log_of(app, thread)
        outcome = msgspec.json.decode(next(e.outcome.text for e in log if isinstance(e, CallSettled)))
        assert outcome["error"] == "subagent_env_required"
        assert outcome["missing"] == ["TOKEN"]
        request = next(e for e in log if isinstance(e, VariablesRequested))
        status = await app.engine.variables(thread, request.request)
        assert (status.required, status.missing) == (("TOKEN",), ("TOKEN",))
        left = await app.engine.provide(thread, request.request, {"TOKEN": SECRET})
        assert left.missing == ()
        async with asyncio.timeout(5):
            started = await anext(
                item.event
                async for item in app.engine.follow(thread)
                if isinstance(item, Happened) and isinstance(item.event, ChildStarted)
            )
            await app.engine.wait(started.reference)
    assert seen == {"worker": SECRET}
    for path in (tmp_path / "home").rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.spec("SUB-17", "SUB-09")
async def test_a_scoped_value_reaches_the_child_that_declares_it_and_no_model(open_app: OpenApp) -> None:
    seen.clear()
    requests: list[str] = []

    def scoped(request: ScriptedRequest) -> Say:
        requests.append(f"{request.system} {request.message} {request.tail}")
        if request.agent == "scout":
            return call("peek", who="scout") if request.step == 1 else call(COMPLETE, result="ok", status="SUCCESS")
        return Say(text="done")

    config = Subagent(name="scout", immediate=Immediate(name_env="NAME", scoped_env=("TOKEN",)))
    boss = agent("lead", subagents=(config,), can_spawn_subagents=True)
    async with open_app({"*": scoped}, agents=[boss, agent("scout", "peek")], tools=[peek]) as app:
        thread = await app.start("lead", "go", env={"TOKEN": SECRET, "NAME": "Scout One"})
        async with asyncio.timeout(5):
            await app.engine.wait(thread)
        child = next(e for e in await log_of(app, thread) if isinstance(e, ChildStarted))
    assert seen == {"scout": SECRET}
    assert child.name == "Scout One"
    assert not any(SECRET in text for text in requests)


@pytest.mark.spec("SUB-10")
@pytest.mark.parametrize(("value", "offered"), [("YES", True), ("1", True), ("True", True), ("no", False), ("", False)])
async def test_an_optional_branch_exists_only_when_its_variable_says_so(
    open_app: OpenApp, value: str, offered: bool
) -> None:
    tools: list[str] = []

    def look(request: ScriptedRequest) -> Say:
        tools[:] = request.tools
        return Say(text="done")

    boss = agent("lead", subagents=(Subagent(name="extra", optional="WITH_EXTRA"),), can_spawn_subagents=True)
    async with open_app({"*": look}, agents=[boss, agent("extra")]) as app:
        thread = await app.start("lead", "go", env={"WITH_EXTRA": value})
        async with asyncio.timeout(5):
            await app.engine.wait(thread)
    assert ("agent_extra" in tools) is offered


@pytest.mark.spec("SUB-17")
async def test_a_variable_is_taken_from_the_nearest_level_that_has_it(tmp_path: Path) -> None:
    """Thread, tenant (S4's account), installation (instance), agent, prompt; from settings by `env(NAME)`."""
    found: dict[str, str] = {}

    @tool(effect="read")
    def look(context: ToolContext) -> str:
        """Look."""
        found.update(context.env)
        return "looked"

    names = ("thread", "tenant", "installation", "agent", "prompt")
    levels: dict[str, dict[str, str]] = {
        level: dict.fromkeys(names[: place + 1], f"of the {level}") for place, level in enumerate(names)
    }
    home = tmp_path / "home"
    home.mkdir()
    (home / "retinue.toml").write_text(
        "[env]\n"
        + "".join(f'{name} = "env(FROM_PROCESS)"\n' for name in levels["installation"])
        + 'absent = "env(NOT_THERE)"\n[tenant_env.default]\n'
        + "".join(f'{name} = "of the tenant"\n' for name in levels["tenant"])
    )
    environ = {"RETINUE_HOME": str(home), "HOME": str(tmp_path), "FROM_PROCESS": "of the installation"}
    definition = agent(
        "calc",
        "look",
        env=levels["agent"],
        prompts={"p": Prompt(name="p", text="You are calc.", env=levels["prompt"])},
        side_a=Side(prompt="p"),
    )
    async with Retinue(
        agents=[definition],
        tools=[look],
        models=ScriptedModels([call("look"), Say(text="ok")]),
        settings=load_settings(tmp_path, environ, is_root=True),
        data_dir=home,
        workspace=tmp_path,
        environ=environ,
        tuning=QUICK,
    ) as app:
        pin = app.engine.runtime.agents.pin("calc")
        thread = await app.engine.start(pin, "go", env=levels["thread"])
        await finished(app, thread)
    assert found == {name: f"of the {name}" for name in names}


@pytest.mark.spec("SUB-17")
async def test_a_tool_that_says_a_secret_says_its_name_to_the_model_and_the_log(open_app: OpenApp) -> None:
    heard: list[str] = []

    @tool(effect="read")
    def leak(context: ToolContext) -> str:
        """Say too much."""
        return f"the token is {context.env['TOKEN']}"

    def listen(request: ScriptedRequest) -> Say:
        heard.extend(outcome.text for outcome in request.outcomes)
        return Say(text="ok") if request.outcomes else call("leak")

    async with open_app(listen, agents=[agent("calc", "leak")], tools=[leak]) as app:
        pin = app.engine.runtime.agents.pin("calc")
        thread = await app.engine.start(pin, "go", env={"TOKEN": SECRET})
        await finished(app, thread)
        log = await log_of(app, thread)
    assert heard == ["the token is [secret TOKEN]"]
    assert SECRET not in str(log)


@pytest.mark.spec("SUB-11", "SUB-09")
async def test_what_a_childs_own_immediate_child_needs_is_asked_for_before_the_child_is_started(
    open_app: OpenApp,
) -> None:
    """S4 §7.8: "required scoped variables for that child graph"; with them the whole graph boots."""
    seen.clear()
    told: list[str] = []

    def talk(request: ScriptedRequest) -> Say:
        if request.agent == "lead":
            told.extend(outcome.text for outcome in request.outcomes)
            create = call("subagent_create", agent="middle", name="m", message="go")
            return create if request.step == 1 else Say(text="done")
        if request.agent == "worker" and request.step == 1:
            return call("peek", who="worker")
        return call(COMPLETE, result="ok", status="SUCCESS")

    inner = Subagent(name="worker", immediate=Immediate(scoped_env=("TOKEN",)))
    agents = [
        agent(
            "lead",
            subagents=(Subagent(name="middle", blocking=False, resumable=Resumable()),),
            can_spawn_subagents=True,
        ),
        agent("middle", subagents=(inner,), can_spawn_subagents=True),
        agent("worker", "peek"),
    ]
    async with open_app({"*": talk}, agents=agents, tools=[peek]) as app:
        thread = await app.start("lead", "go")
        await finished(app, thread)
        assert not [e for e in await log_of(app, thread) if isinstance(e, ChildStarted)]
        error = msgspec.json.decode(told[0])
        assert (error["error"], error["missing"]) == ("subagent_env_required", ["TOKEN"])
        await app.engine.provide(thread, error["request_id"], {"TOKEN": SECRET})
        child = await until(app, thread, ChildStarted)
        assert isinstance(child, ChildStarted)
        await finished(app, child.reference)
    assert seen == {"worker": SECRET}
