import msgspec
import pytest

from retinue.definition.load import Loaded, load_text
from retinue.schema.agent import (
    AgentDefinition,
    Prompt,
)
from retinue.schema.ids import AgentId


def load(front: str, body: str = "Do it.") -> Loaded:
    return load_text(f"---\n{front}\n---\n{body}\n", file="dir/a.md")


def agent(front: str, body: str = "Do it.") -> AgentDefinition:
    loaded = load(front, body)
    assert loaded.definition is not None, loaded.problems
    return loaded.definition


def codes(loaded: Loaded) -> list[str]:
    return [p.code for p in loaded.problems]


@pytest.mark.spec("DEF-15")
def test_an_agent_that_says_nothing_has_the_defaults() -> None:
    definition = agent("description: d")

    assert msgspec.structs.replace(definition, hash="") == AgentDefinition(
        id=AgentId("a"), name="a", description="d", prompt="Do it."
    )
    assert (definition.category, definition.execution_mode, definition.max_steps) == ("all", "agentic", 30)
    assert (definition.timeout, definition.temperature, definition.completion) == (1800.0, None, None)
    assert (definition.use_default_prefix, definition.can_spawn_subagents, definition.sandbox) == (True, False, "auto")
    assert definition.permissions.ruleset == "primary"


@pytest.mark.spec("DEF-15")
@pytest.mark.parametrize(
    ("front", "spawns"),
    [
        ("category: primary", True),
        ("category: subagent", False),
        ("allowed_agents: [x]", True),
        ("allowed_agents: []", False),
        ("subagents: [x]", True),
        ("agents: ['*']", True),
        ("category: primary\ncan_spawn_subagents: false", False),
        ("can_spawn_subagents: true", True),
        ("disable-model-invocation: true", False),
    ],
)
def test_who_may_call_agents_follows_from_what_is_given(front: str, spawns: bool) -> None:
    assert agent(front).can_spawn_subagents is spawns


@pytest.mark.spec("DEF-15")
def test_a_description_is_missed_and_a_prompt_is_required() -> None:
    assert codes(load("name: a")) == ["missing-description"]
    assert codes(load("description: d", body="  \n")) == ["missing-prompt"]
    assert load("description: d", body="").definition is None


@pytest.mark.spec("DEF-15")
def test_the_profile_of_kodelet_wants_more() -> None:
    text = "---\ndescription: d\nmodel: m\n---\nDo it."
    loaded = load_text(text, file="a.md", profile="kodelet")

    assert [p.message for p in loaded.problems] == [
        "'provider' is required by kodelet",
        "'max_tokens' is required by kodelet",
    ]
    full = text.replace("model: m", "model: m\nprovider: openai\nmax_tokens: 100")
    assert load_text(full, file="a.md", profile="kodelet").definition is not None


@pytest.mark.spec("DEF-01")
def test_with_a_system_prompt_the_body_is_documentation() -> None:
    definition = agent("description: d\nsystem_prompt: You are.", "# Docs")

    assert (definition.prompt, definition.documentation) == ("You are.", "# Docs")


@pytest.mark.spec("DEF-03")
def test_a_foreign_category_beside_a_mode_leaves_the_mode() -> None:
    definition = agent("description: d\nmode: subagent\ncategory: specialized")

    assert definition.category == "subagent"
    assert definition.extra == {"category": "specialized"}


@pytest.mark.spec("DEF-03")
def test_copilots_two_flags_say_who_may_start_an_agent() -> None:
    assert agent("user-invocable: false").category == "subagent"
    assert agent("disable-model-invocation: true").category == "primary"
    assert agent("user-invocable: false\ndisable-model-invocation: true").category == "hidden"
    assert agent("user-invocable: true\ndisable-model-invocation: false").category == "all"


@pytest.mark.spec("DEF-13", "SUB-05")
def test_two_ai_sides_need_a_second_side_its_prompt_and_a_limit() -> None:
    assert codes(load("description: d\ntype: dual_ai\nmax_session_turns: 3")) == ["missing-key"]
    assert codes(load("description: d\ntype: dual_ai\nmax_session_turns: 3\nside_b: {label: x}")) == ["missing-key"]
    loaded = load("description: d\ntype: dual_ai\nside_b: {prompt: x}")
    assert codes(loaded) == ["no-turn-limit"]
    assert loaded.definition is not None
    assert loaded.definition.max_session_turns == 40


@pytest.mark.spec("DEF-13")
def test_prompts_are_looked_up_and_a_dangling_name_is_an_error() -> None:
    text = (
        "---\ndescription: d\ntype: dual_ai\nmax_session_turns: 3\nside_a: {prompt: one}\nside_b: {prompt: two}\n---\n"
    )
    known: dict[str, Prompt | str] = {"one": "First.", "two": Prompt(name="two", text="Second.", model="m")}
    loaded = load_text(text, file="a.md", prompts=known.get)

    assert loaded.definition is not None
    assert loaded.definition.prompts == {"one": Prompt(name="one", text="First."), "two": known["two"]}
    (problem,) = load_text(text, file="a.md", prompts={"one": "First."}.get).problems
    assert (problem.code, problem.line) == ("dangling-prompt", 6)
    assert "'two'" in problem.message


@pytest.mark.spec("DEF-10")
def test_a_placeholder_nobody_declared_is_warned_of_at_its_line() -> None:
    front = "description: d\nvariables: {team: x}\ninputs: {path: string}"
    loaded = load(front, "{{team}} {{path}} {{prompt}} ${nothing}\nand {{other}} {{.go}}")

    assert [(p.code, p.line, p.column) for p in loaded.problems] == [("unknown-placeholder", 7, 5)]
    assert "{{other}}" in loaded.problems[0].message
