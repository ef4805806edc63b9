import msgspec
import pytest

from retinue.definition.load import Loaded, load_all, load_fields, load_prompt, load_text
from retinue.schema.agent import (
    AgentDefinition,
    Prompt,
    Subagent,
    ToolFilter,
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


@pytest.mark.spec("DEF-07", "DEF-08")
@pytest.mark.parametrize(
    ("front", "code", "kept"),
    [
        ("category: engineering", "foreign-value", {"category": "engineering"}),
        ("mode: agent", "foreign-value", {"mode": "agent"}),
        ("type: developer", "foreign-value", {"type": "developer"}),
        ("output: context.md", "foreign-value", {"output": "context.md"}),
        ("output: {format: text}", "foreign-value", {"output": {"format": "text"}}),
        ("steps: [plan, do]", "foreign-value", {"steps": ["plan", "do"]}),
        ("inputs: [a topic, a style]", "foreign-value", {"inputs": ["a topic", "a style"]}),
        ("hooks: [{event: x, command: y}]", "not-honoured", {"hooks": [{"event": "x", "command": "y"}]}),
        ("examples: [{a: b}]", "foreign-value", {"examples": [{"a": "b"}]}),
        ("author: {name: x}", "foreign-value", {"author": {"name": "x"}}),
        ("reasoning_effort: none", "foreign-value", {"reasoning_effort": "none"}),
        ("hooks: {PreToolUse: [{command: rm}]}", "not-honoured", {"hooks": {"PreToolUse": [{"command": "rm"}]}}),
        ("permissionMode: bypassPermissions", "not-honoured", {"permissionMode": "bypassPermissions"}),
        ("permissionMode: acceptEdits", "not-honoured", {"permissionMode": "acceptEdits"}),
        ("skills: [a]", "unsupported-key", {"skills": ["a"]}),
        ("handoffs: [{agent: b}]", "unsupported-key", {"handoffs": [{"agent": "b"}]}),
        ("vibe: calm", "unknown-key", {"vibe": "calm"}),
    ],
)
def test_what_we_cannot_say_is_kept_and_warned_of(front: str, code: str, kept: dict[str, object]) -> None:
    loaded = load(f"description: d\n{front}")

    assert codes(loaded) == [code]
    assert loaded.definition is not None
    assert loaded.definition.extra == kept
    assert msgspec.structs.replace(loaded.definition, extra={}, hash="") == msgspec.structs.replace(
        agent("description: d"), hash=""
    )


@pytest.mark.spec("DEF-08")
def test_free_keys_are_kept_without_a_word() -> None:
    loaded = load("description: d\nx-team: a\nmetadata: {b: [1]}\noptions: {c: 2}")

    assert loaded.problems == ()
    assert loaded.definition is not None
    assert loaded.definition.extra == {"x-team": "a", "metadata": {"b": [1]}}


@pytest.mark.spec("DEF-08")
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("permisions", "did you mean 'permissions'?"),
        ("mmcp-servers", "did you mean 'mcp_servers'?"),
        ("descripton", "did you mean 'description'?"),
        ("zzz", None),
    ],
)
def test_an_unknown_key_says_what_was_probably_meant(key: str, hint: str | None) -> None:
    problem = load(f"description: d\n{key}: x").problems[0]

    assert (problem.code, problem.severity, problem.line, problem.column) == ("unknown-key", "warning", 3, 1)
    assert (problem.message, problem.hint) == (f"'{key}' is not a known key", hint)
    assert str(problem).startswith(f"dir/a.md:3:1: unknown-key '{key}' is not a known key")


@pytest.mark.spec("DEF-08")
def test_problems_are_found_at_their_places_inside_nested_values() -> None:
    front = """description: d
side_b:
  prompt: x
  session_stop:
    message_property: m
subagents:
  - name: a
  - name: b
    resumable: {receives_messages: nobody}
mcp_servers:
  s:
    command: x
    headrs: {}
budget:
  tokens: many"""

    assert [(p.code, p.line, p.column, p.message) for p in load(front).problems if p.code != "missing-key"] == [
        ("bad-value", 6, 5, "'side_b.session_stop' is a map of message_property; wanted a map with 'name'"),
        ("bad-value", 10, 36, "'subagents.resumable.receives_messages' is 'nobody'; wanted side_a or side_b"),
        ("unknown-key", 14, 5, "'headrs' is not a key of an MCP server"),
        ("bad-value", 16, 11, "'budget.tokens' is 'many'; wanted a whole number of at least 1"),
    ]


@pytest.mark.spec("DEF-07")
def test_an_unquoted_colour_is_a_comment_and_a_warning() -> None:
    loaded = load("description: d\ncolor: #2ECC71")

    assert codes(loaded) == ["empty-value"]
    assert loaded.definition is not None
    assert loaded.definition.color is None


@pytest.mark.spec("DEF-09")
@pytest.mark.parametrize(
    "front",
    [
        "model: a\nmodelId: b",
        "tools: Read\nTools: Write",
        "mode: primary\ncategory: subagent",
        "permission: ask\npermissions: deny",
    ],
)
def test_two_names_of_one_power_key_must_agree(front: str) -> None:
    assert codes(load(f"description: d\n{front}")) == ["duplicate-key"]


def test_two_names_that_agree_are_fine_and_harmless_ones_keep_the_first() -> None:
    assert codes(load("description: d\nmodel: a\nmodelId: a\nmode: subagent\ncategory: subagent")) == []
    loaded = load("description: d\ntitle: A\ndisplay_name: B")
    assert codes(loaded) == ["foreign-value"]
    assert loaded.definition is not None
    assert loaded.definition.display_name == "A"


@pytest.mark.spec("DEF-13")
def test_a_prompt_file_has_settings_of_its_own_or_none() -> None:
    text = "---\nmodel: m\ntools: [read]\nhooks: [h]\nsubagents: [s]\nenv: {A: b}\n---\nYou check.\n"
    prompt, problems = load_prompt(text, file="prompts/p.md", name="p")

    assert problems == ()
    assert prompt == Prompt(
        name="p",
        text="You check.",
        model="m",
        tools=ToolFilter(only=(("read",),)),
        hooks=("h",),
        subagents=(Subagent(name="s"),),
        env={"A": "b"},
    )
    assert load_prompt("Plain text.\n", file="p.md", name="p") == (Prompt(name="p", text="Plain text."), ())
    assert load_prompt(b"\xff", file="p.md", name="p")[0] is None
    assert load_prompt("---\ntools: true\n---\nx", file="p.md", name="p")[0] is None


@pytest.mark.spec("DEF-01", "REG-10")
def test_a_list_in_the_frontmatter_is_several_remote_agents() -> None:
    text = """---
- kind: remote
  name: legal
  agent_card_url: https://legal.example/card.json
  auth: {type: http, scheme: Bearer, token: $LEGAL_TOKEN}
- name: Tax Help
  agent_card_json: '{"name": "tax"}'
- name: broken
- kind: remote
---
"""
    legal, tax, broken, nameless = load_all(text, file="x.md", id=AgentId("partners/all"))

    assert legal.definition is not None
    assert tax.definition is not None
    assert (legal.definition.id, legal.definition.kind) == ("partners/legal", "remote")
    assert legal.definition.auth == {"type": "http", "scheme": "Bearer", "token": "$LEGAL_TOKEN"}
    assert (tax.definition.id, tax.definition.agent_card_json) == ("partners/tax-help", '{"name": "tax"}')
    assert [p.code for p in broken.problems if p.severity == "error"] == ["missing-key"]
    assert [(p.code, p.line) for p in nameless.problems if p.severity == "error"] == [("no-id", 9)]


@pytest.mark.spec("DEF-08")
def test_a_file_whose_name_gives_no_id_is_an_error() -> None:
    text = "---\ndescription: d\n---\nHi"

    assert codes(load_text(text, file="_draft.md")) == ["no-id"]
    loaded = load_text(text, file="some/where/reviewer/prompt.md")
    assert loaded.definition is not None
    assert loaded.definition.id == "reviewer"


@pytest.mark.spec("DEF-12")
def test_fields_of_a_configuration_load_like_a_file() -> None:
    loaded = load_fields(
        {"Name": "My Agent", "Description": "d", "MaxIterations": 4, "Tools": {"Mode": "None"}}, file="c", prompt="Hi"
    )

    assert loaded.definition is not None
    assert loaded.problems == ()
    assert (loaded.definition.id, loaded.definition.name, loaded.definition.max_steps) == ("my-agent", "My Agent", 4)
    assert loaded.definition.tools == ToolFilter(only=((),))
    assert len(loaded.definition.hash) == 64


def test_fields_without_a_name_or_nested_too_deep_are_problems() -> None:
    deep: dict[str, object] = {}
    for _ in range(30):
        deep = {"a": deep}

    assert codes(load_fields({"description": "d"}, file="c", prompt="x")) == ["no-id"]
    assert codes(load_fields({"name": "n", "options": deep}, file="c", prompt="x")) == ["too-deep"]


def test_the_hash_is_that_of_the_bytes() -> None:
    one = agent("description: d")

    assert one.hash == agent("description: d").hash
    assert one.hash != agent("description: d ").hash


def test_a_body_with_a_control_character_is_warned_of() -> None:
    assert codes(load("description: d", "a\x1bb")) == ["control-in-body"]


@pytest.mark.spec("DEF-08", "DEF-09")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('max_steps: "1000000000000000000000000000000"', "bad-value"),
        ("max_steps: 1000000000000000000000000000000", "bad-value"),
        ("order: 1e30", "foreign-value"),
        ("order: 1.0e+400", "foreign-value"),
        ("max_steps: 1.0e+400", "bad-value"),
        ("order: 999999999999999999", "foreign-value"),
        ("timeout: 99999999999999999999d", "bad-value"),
        ("inputs: {a: {type: integer, default: 99999999999999999999}}", "bad-value"),
    ],
)
def test_a_number_that_nothing_can_keep_is_a_problem_with_its_line(line: str, code: str) -> None:
    loaded = load_text(f"---\ndescription: d\n{line}\n---\nBody", file="a.md")

    assert [(p.code, p.line) for p in loaded.problems] == [(code, 3)]
    if loaded.definition is not None:
        msgspec.json.encode(loaded.definition)


@pytest.mark.spec("DEF-08", "DEF-12")
@pytest.mark.parametrize(
    "fields",
    [
        {"max_steps": 10**30},
        {"order": 10**400},
        {"options": {"a": 10**30}},
        {"x-a": [float("nan")]},
        {"name": "\ud800"},
    ],
)
def test_fields_that_nothing_can_keep_are_a_problem_that_names_the_key(fields: dict[str, object]) -> None:
    loaded = load_fields({"name": "n", "description": "d", **fields}, file="c", prompt="p")

    assert loaded.definition is None
    assert [p.code for p in loaded.problems] == ["bad-value"]
    assert next(iter(fields)) in loaded.problems[0].message
