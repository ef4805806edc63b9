import pytest

from retinue.definition.load import Loaded, load_text
from retinue.schema.agent import AgentDefinition, ToolFilter


def load(front: str) -> Loaded:
    return load_text(f"---\n{front}\n---\nDo it.\n", file="a.md")


def rescued(front: str) -> AgentDefinition:
    loaded = load(front)
    assert loaded.definition is not None, loaded.problems
    assert "rescued-text" in {p.code for p in loaded.problems}
    return loaded.definition


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Runs the steps in order: build, test", "Runs the steps in order: build, test"),
        (
            'Use it. Examples: <example>user: "hi" assistant: "ho"</example>',
            'Use it. Examples: <example>user: "hi" assistant: "ho"</example>',
        ),
        ('"Counts" orders (and more)', 'Counts" orders (and more)'),
        ('"Left open', "Left open"),
        ("'It's damaged'", "It's damaged"),
        ("**BOLD**: words", "**BOLD**: words"),
        ("*star* first", "*star* first"),
        ("&amp first", "&amp first"),
        ("!important: it", "!important: it"),
        ("[one] [two]", "[one] [two]"),
        ("{{name}} is it: yes", "{{name}} is it: yes"),
        ("@mention first", "@mention first"),
        ("`code` first", "`code` first"),
        ("%d items", "%d items"),
        ("|\nnot indented\nat all", "not indented\nat all"),
        ("First line.\nSecond line without a key\n\nThird", "First line.\nSecond line without a key\n\nThird"),
        ("Starts: here\n  and goes on: there", "Starts: here\nand goes on: there"),
    ],
)
def test_a_description_that_is_not_yaml_is_read_as_text(value: str, text: str) -> None:
    definition = rescued(f"name: a\ndescription: {value}\ntools: Read\nmodel: x")

    assert definition.description == text
    assert definition.tools == ToolFilter(only=(("read",),))
    assert definition.model == "x"


@pytest.mark.spec("DEF-07")
def test_other_harmless_texts_are_rescued_on_one_line() -> None:
    definition = rescued("name: Agent: the second\ndescription: d\nargument-hint: [file] [options]\nvibe: a: b")

    assert definition.name == "Agent: the second"
    assert definition.extra == {"argument-hint": "[file] [options]", "vibe": "a: b"}


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "line",
    [
        "tools: Read: Write",
        'tools: "Read',
        "tools: [Read, Write",
        "tools: *",
        "disallowedTools: *",
        "model: a: b",
        "permission: {edit: deny",
        "permissionMode: [plan",
        "hooks: {a: [}",
        "category: a: b",
        "mcpServers: @x",
        "env: {A: b",
        "allowed_commands: [git *",
        "sandbox: `require`",
        "exposed: 'true",
        "allowedAgents: [a, b: ]]",
        "temperature: 0.1: x",
        "inputs: {a: [}",
    ],
)
def test_a_broken_value_of_any_other_key_refuses_the_file(line: str) -> None:
    loaded = load(f"name: a\ndescription: fine\n{line}\ncolor: red")

    assert loaded.definition is None
    assert [p.line for p in loaded.problems if p.severity == "error"] in ([4], [5])


@pytest.mark.spec("DEF-07")
def test_an_unquoted_star_is_told_apart_from_other_damage() -> None:
    (problem,) = [p for p in load("description: d\ntools: *").problems if p.severity == "error"]

    assert (problem.code, problem.line, problem.column) == ("everything", 3, 8)


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "front",
    [
        "description: Broken: text\n  tools: Read",
        "description: Broken: text\n\ttools: Read",
        "description: Broken: text\n  - tools: Read",
        "description: Broken: text\n  'disallowedTools': Bash",
        "description: Broken: text.tools: Read",
        "description: Broken: text tools: Read, Grep",
        "description: Broken: text allowedTools: whatever it is",
        "description: Broken: text permissionMode: plan",
        "description: 'Broken'model: sonnet",
        "permission:\n  edit: deny\ndescription: cut in: two\n  bash: deny",
        "vibe: calm\n  bash: deny: x",
    ],
)
def test_broken_text_that_may_hide_power_refuses_the_file(front: str) -> None:
    assert load(front).definition is None


@pytest.mark.spec("DEF-07")
def test_a_word_before_a_colon_is_not_a_hidden_key() -> None:
    for text in (
        "Knows build tools: webpack and others",
        "The data model: rows and columns",
        "Uses webhooks: many",
        "In dark mode: x",
    ):
        assert rescued(f"description: {text}").description == text


@pytest.mark.spec("DEF-07")
def test_a_power_key_below_a_quote_that_never_closes_is_still_that_key() -> None:
    definition = rescued('description: "left open\ntools: Read\nvibe: calm')

    assert definition.tools == ToolFilter(only=(("read",),))
    assert definition.extra == {"vibe": "calm"}


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "front",
    [
        'description: "left open\ntools: Read\nvibe: closed"',
        'a b: c\n"x y": "left open\ntools: Read\nz w: closed"',
        "tags: [a,\ntools: Read\n]",
        "x: {a: b,\ndisallowedTools: Bash\n}",
        "tools: [Read,\nmodel: x\n]",
    ],
)
def test_a_power_key_that_yaml_reads_as_a_part_of_something_else_refuses_the_file(front: str) -> None:
    assert load(f"description2: d\n{front}").definition is None


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "front",
    [
        "disallowedTools:\n  - Bash\ncolor: blue\n  - Write",
        "description: all that is left of a list\n  - Read\n  - Grep",
        "description: broken: text\n  - Read",
        "permission:\n  edit: deny\ndescription: cut: in two\n  bash: deny",
        "description: broken: text\n  bash: deny",
        "disallowedTools:\n- Bash\ndescription: cut: in two\n- x_tool",
    ],
)
def test_a_text_that_goes_on_like_a_list_of_power_refuses_the_file(front: str) -> None:
    assert [p.code for p in load(front).problems if p.severity == "error"] == ["hidden-power"]


def test_a_text_may_go_on_like_any_other_list() -> None:
    definition = load("description: This\n  - reads words\n  - and more").definition

    assert definition is not None
    assert definition.description == "This - reads words - and more"


@pytest.mark.spec("DEF-09")
def test_a_key_given_twice_is_an_error_also_after_a_rescue() -> None:
    (problem,) = [
        p for p in load("description: a: b\nmodel: x\ntools: Read\nmodel: y").problems if p.severity == "error"
    ]

    assert (problem.code, problem.line) == ("duplicate-key", 5)
    assert "line 3" in problem.message


@pytest.mark.spec("DEF-08")
def test_problems_after_a_rescue_keep_their_exact_places() -> None:
    loaded = load(
        "name: a\ndescription: b: c\n  d: e\n\nside_a:\n  label: x\n  max_steps: many\nbudgt: 1\ntools:\n  - Nonsense"
    )

    assert [(p.code, p.line, p.column) for p in loaded.problems] == [
        ("rescued-text", 3, 14),
        ("bad-value", 8, 14),
        ("unknown-key", 9, 1),
        ("unknown-tool", 11, 5),
    ]


@pytest.mark.spec("DEF-07")
def test_a_fence_that_cuts_power_off_the_frontmatter_is_an_error() -> None:
    text = "---\nname: a\ndescription: b\n---\n\ncolor: red\ntools: Read\n---\nDo it."
    (problem,) = load_text(text, file="a.md").problems

    assert (problem.code, problem.line) == ("split-frontmatter", 7)


def test_a_body_may_show_frontmatter_in_a_code_block_or_of_keys_that_are_given() -> None:
    text = "---\nname: a\ndescription: b\nmodel: x\n---\n```\ntools: Read\n---\n```\nmodel: y\n---\n"

    assert load_text(text, file="a.md").definition is not None


@pytest.mark.parametrize("front", ["just text", "- a\n- b", "{a: b"])
def test_what_is_no_map_of_keys_is_an_error(front: str) -> None:
    assert load(front).definition is None


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize("key", ["to\u200bols", "\u00a0tools", "tools.", "\uff54ools"])
def test_a_key_that_only_looks_like_power_is_an_error(key: str) -> None:
    assert [p.code for p in load(f"description: d\n{key}: Read").problems] == ["hidden-power"]


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "front", ["disallowedTools: Bash\n  , Write", "model: sonnet\n  more", "disallowedTools:\n  - Bash\n   x"]
)
def test_a_line_that_yaml_would_join_to_a_power_value_is_an_error(front: str) -> None:
    assert [p.code for p in load(f"description: d\n{front}").problems] == ["bad-value"]


def test_a_list_of_tools_may_go_on_over_lines() -> None:
    definition = load("description: d\ntools: Read,\n  Grep, Glob").definition

    assert definition is not None
    assert definition.tools.only == (("read", "grep", "glob"),)
