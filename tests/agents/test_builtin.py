"""The built-in agents hold the values of the specification, and load without a word of complaint."""

from importlib.resources import files

import jsonschema_rs
import msgspec
import pytest

from retinue.definition.load import load_text
from retinue.schema.agent import AgentDefinition, Category, ExecutionMode, ToolFilter
from retinue.schema.ids import AgentId
from retinue.schema.permission import Permissions, RulesetName

pytestmark = pytest.mark.spec("REG-12")

FOLDER = files("retinue.agents")
READS = ("read", "glob", "grep", "list")


class Row(msgspec.Struct, frozen=True):
    display_name: str
    category: Category
    mode: ExecutionMode
    steps: int
    tools: ToolFilter
    ruleset: RulesetName = "primary"
    allowed: tuple[str, ...] | None = None
    spawns: bool = False
    icon: str | None = None
    color: str | None = None


def only(*tools: str) -> ToolFilter:
    return ToolFilter(only=(tools,))


ROWS = {
    "coder": Row(
        "Coder",
        "primary",
        "agentic",
        50,
        ToolFilter(),
        allowed=("explore", "general", "planner", "researcher"),
        spawns=True,
        icon="💻",
        color="#3B82F6",
    ),
    "planner": Row(
        "Planner",
        "primary",
        "planning",
        20,
        only(*READS, "todo", "task", "question"),
        "planner",
        ("explore", "researcher"),
        spawns=True,
        icon="📋",
        color="#10B981",
    ),
    "reviewer": Row(
        "Reviewer", "primary", "agentic", 15, only(*READS, "diagnostics"), "explorer", icon="🔍", color="#F59E0B"
    ),
    "explore": Row("Explorer", "subagent", "agentic", 15, only(*READS), "explorer", icon="🔍"),
    "general": Row("General", "subagent", "agentic", 20, ToolFilter(denied=("task",)), icon="🤖"),
    "researcher": Row(
        "Researcher", "subagent", "agentic", 10, only("websearch", "webfetch", "read"), "researcher", icon="📚"
    ),
    "planner-sub": Row("Task Planner", "subagent", "planning", 10, only(*READS, "todo"), "planner", icon="📝"),
    "compaction": Row("Compaction", "hidden", "single_shot", 1, only()),
    "summary": Row("Summary", "hidden", "single_shot", 1, only()),
    "title": Row("Title", "hidden", "single_shot", 1, only()),
    "codebase-investigator": Row(
        "Codebase Investigator", "subagent", "agentic", 15, only(*READS), "explorer", icon="🧭"
    ),
    "cli-help": Row("CLI Help", "subagent", "agentic", 10, only("bash"), icon="❔"),
}


def load(name: str) -> AgentDefinition:
    file = f"{name}.md"
    loaded = load_text(FOLDER.joinpath(file).read_bytes(), file=file, id=AgentId(name))
    assert loaded.problems == ()
    assert loaded.definition is not None
    return loaded.definition


def test_there_is_a_file_for_every_agent_and_no_other() -> None:
    assert {f.name.removesuffix(".md") for f in FOLDER.iterdir() if f.name.endswith(".md")} == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_an_agent_has_the_values_of_the_specification(name: str) -> None:
    agent, row = load(name), ROWS[name]

    assert (agent.id, agent.name) == (name, name)
    assert row == Row(
        agent.display_name or "",
        agent.category,
        agent.execution_mode,
        agent.max_steps,
        agent.tools,
        agent.permissions.ruleset,
        agent.allowed_agents,
        agent.can_spawn_subagents,
        agent.icon,
        agent.color,
    )
    assert agent.permissions == Permissions(ruleset=row.ruleset)
    assert agent.hidden == (row.category == "hidden")
    assert agent.use_default_prefix
    assert agent.model is None


@pytest.mark.parametrize("name", ROWS)
def test_an_agent_says_what_it_is_for_and_has_a_prompt_without_templates(name: str) -> None:
    agent = load(name)

    assert 20 < len(agent.description) < 250
    assert len(agent.prompt) > 500
    assert "{{" not in agent.prompt
    assert "${" not in agent.prompt


@pytest.mark.parametrize(
    ("name", "output", "value"),
    [
        (
            "codebase-investigator",
            "report",
            {
                "summary": "It is a race.",
                "exploration_trace": ["grep for the lock"],
                "locations": [{"file": "a.py", "reasoning": "takes the lock late", "symbols": ["acquire"]}],
            },
        ),
        (
            "cli-help",
            "help",
            {"answer": "Use run.", "commands": [{"usage": "retinue run AGENT", "options": ["--json: as JSON"]}]},
        ),
    ],
)
def test_a_report_has_the_shape_of_the_specification(name: str, output: str, value: dict[str, object]) -> None:
    spec = load(name).output
    assert spec is not None
    check = jsonschema_rs.validator_for(dict(spec.schema))

    assert spec.name == output
    assert check.is_valid(value)
    for key in value:
        assert not check.is_valid({k: v for k, v in value.items() if k != key})


def test_the_help_agent_may_only_ask_for_help() -> None:
    assert load("cli-help").allowed_commands == ("retinue --help", "retinue --version", "retinue * --help")
