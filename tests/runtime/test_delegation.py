"""How agents look as tools: names, descriptions, schemas; and who may call whom."""

import re
from pathlib import Path

import msgspec
import pytest

from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.runtime.delegation_specs import described, named_spec, tool_name
from retinue.schema.agent import AgentDefinition, InputSpec
from retinue.schema.tool import ToolSpec
from retinue.testing.harness import log_of, scripted_app
from support.agents import add, agent
from support.opening import OpenApp
from support.tree import complete, lead, outcomes


@pytest.mark.spec("SUB-02")
def test_a_tool_name_fits_providers_and_gets_a_hash_when_cut_or_clashing() -> None:
    assert tool_name("sales/pr-agent", set()) == "agent_sales_pr-agent"
    long = tool_name("x" * 100, set())
    assert len(long) == 64
    assert long != tool_name("x" * 101, set())
    assert tool_name("a/b", {"agent_a_b"}) not in ("agent_a_b", tool_name("a/b", set()))


@pytest.mark.spec("SUB-02")
def test_a_description_carries_examples_and_falls_back_to_s2s_text() -> None:
    assert described(agent("x", description="Digs.", examples=("dig here",))) == "Digs.\nExamples:\n- dig here"
    bare = agent("x", description="", provider="openai", model="o3")
    assert described(bare) == "Named agent: x (Provider: openai, Model: o3)"


@pytest.mark.spec("SUB-02", "DEF-11")
def test_declared_inputs_are_the_schema_of_the_agents_tool() -> None:
    spec = named_spec("agent_x", agent("x", inputs=(InputSpec(name="target", description="Where"),)))
    assert spec.parameters["required"] == ["target"]


def typed(name: str, **keys: object) -> AgentDefinition:
    inputs = (InputSpec(name="company"), InputSpec(name="size", type="integer", required=False, default=5))
    return agent(name, inputs=inputs, query="Qualify {{company}} of {{size}}", **keys)


@pytest.mark.spec("SUB-02")
async def test_delegate_to_agent_is_one_tool_for_all_with_what_each_agent_takes(open_app: OpenApp) -> None:
    """A union in effect: which properties are wanted depends on `agent_name` and is checked when it is called."""
    specs: list[ToolSpec] = []
    asked: list[str] = []

    def boss(request: ScriptedRequest) -> Say:
        specs.extend(t for t in request.head.tools if t.name == "delegate_to_agent")
        wanted: list[dict[str, object]] = [
            {"agent_name": "sales", "company": "Acme", "size": 7},
            {"agent_name": "helper", "query": "help"},
            {"agent_name": "sales", "size": 7},
            {"agent_name": "helper", "query": "  "},
            {"agent_name": "stranger", "query": "x"},
        ]
        if request.step == 1:
            return Say(calls=[CallTool("delegate_to_agent", each) for each in wanted])
        return Say(text="ok")

    def worker(request: ScriptedRequest) -> Say:
        asked.append(request.message)
        return complete(request.agent)

    boss_agent = lead("sales", "helper", tools=["delegate_to_agent"])
    async with open_app({"lead": boss, "*": worker}, agents=[boss_agent, typed("sales"), agent("helper")]) as app:
        log = await log_of(app, (await app.run("lead", "go")).thread)
    found = {o.text[:60]: o.status for o in outcomes(log)}
    assert sorted(asked) == ["Qualify Acme of 7", "help"]
    assert [o.status for o in outcomes(log)].count("ok") == 2
    assert [o.status for o in outcomes(log)].count("error") == 3
    assert "`query` is blank; say what the agent has to do." in found
    assert any("company" in text for text in found)
    parameters = msgspec.convert(specs[0].parameters, dict[str, object])
    properties = msgspec.convert(parameters["properties"], dict[str, dict[str, object]])
    assert parameters["type"] == "object"
    assert parameters["required"] == ["agent_name"]
    assert set(properties) == {"agent_name", "company", "size", "query"}
    assert properties["agent_name"]["enum"] == ["sales", "helper"]
    assert "- sales (takes company, size): The agent sales." in specs[0].description
    assert "- helper (takes query): The agent helper." in specs[0].description


@pytest.mark.spec("SUB-02")
@pytest.mark.parametrize("tools", [("add",), ("delegate_to_agent",)])
async def test_delegate_to_agent_is_there_only_for_who_names_it(open_app: OpenApp, tools: tuple[str, ...]) -> None:
    offered: set[str] = set()

    def script(request: ScriptedRequest) -> Say:
        offered.update(request.tools)
        return Say(text="ok")

    async with open_app(script, agents=[lead("worker", tools=tools), agent("worker")], tools=[add]) as app:
        await app.run("lead", "go")
    assert ("delegate_to_agent" in offered) == ("delegate_to_agent" in tools)


FILE = "---\nname: {name}\ndescription: An agent.\n{keys}---\nWork.\n"
CALLABLE = ("all-rounder", "helper-agent")
"""What the folder of the test below holds for everybody to call."""


@pytest.mark.spec("SUB-03")
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", CALLABLE),
        ("allowed_agents: []\n", ()),
        ("allowed_agents: ['*']\n", CALLABLE),
        ("allowed_agents: [helper-agent]\n", ("helper-agent",)),
        ("allowed_agents: [chief]\n", ("chief",)),
        ("allowed_agents: [secret]\n", ()),
        ("allowed_agents: ['*', secret, chief]\n", (*CALLABLE, "chief")),
        ("category: subagent\n", ()),
        ("category: subagent\nallowed_agents: [helper-agent]\n", ("helper-agent",)),
        ("can_spawn_subagents: false\nallowed_agents: [helper-agent]\n", ()),
    ],
)
async def test_who_may_call_whom_as_files_say_it(tmp_path: Path, keys: str, expected: tuple[str, ...]) -> None:
    """Omitted, `[]`, a list, `*`; `hidden: true` is called by nobody, a primary agent only by name."""
    spawns = "" if "can_spawn" in keys else "can_spawn_subagents: true\n"
    files = {
        "boss": keys + spawns,
        "helper-agent": "category: subagent\n",
        "all-rounder": "category: all\n",
        "chief": "category: primary\n",
        "secret": "hidden: true\n",
        "ghost": "category: all\nhidden: true\n",
    }
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    for name, written in files.items():
        (folder / f"{name}.md").write_text(FILE.format(name=name, keys=written))
    told: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        spec = next((t for t in request.head.tools if t.name == "call_agent"), None)
        told.extend(re.findall(r"^- ([a-z-]+):", spec.description, re.MULTILINE) if spec else [])
        return Say(text="ok")

    async with scripted_app(tmp_path, script) as app:
        await app.run("boss", "go")
    assert {name for name in told if name in files} == set(expected)
