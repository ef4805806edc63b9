import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.definition.load import load_all, load_text
from retinue.definition.node import plain
from retinue.definition.render import dump, to_canonical
from retinue.definition.tree import read_yaml
from retinue.schema.agent import AgentDefinition
from retinue.schema.problem import has_errors


def essence(definition: AgentDefinition) -> AgentDefinition:
    """Without the hash and the lines that rules stand in."""
    rules = tuple(msgspec.structs.replace(rule, origin="") for rule in definition.permissions.rules)
    permissions = msgspec.structs.replace(definition.permissions, rules=rules)
    return msgspec.structs.replace(definition, hash="", permissions=permissions)


FRONTS = {
    "claude": (
        "name: a\ndescription: Use it: often\ntools: Read, Bash(git diff:*), Foo\ndisallowedTools: Write\nmodel: sonnet"
    ),
    "opencode": (
        "description: d\n"
        "mode: subagent\n"
        "category: odd\n"
        "tools: {write: false}\n"
        'permission: {bash: {"*": ask, "git *": allow}, memory: deny}'
    ),
    "copilot": (
        "description: d\n"
        "tools: [search/codebase, github/*]\n"
        "user-invocable: false\n"
        "agents: ['*']\n"
        "handoffs: [{agent: b}]"
    ),
    "copilot, people only": "description: d\ndisable-model-invocation: true\nmodel: [a, b]",
    "kodelet": (
        "description: d\n"
        "allowed_tools: [bash]\n"
        "allowed_commands: [git *]\n"
        "arguments: {x: {default: y}}\n"
        "openai: {base_url: u}"
    ),
    "gemini": "description: d\nkind: local\ntimeout_mins: 7\nmax_turns: 3\nsystem_prompt: |\n  You are\n\n  it",
    "cursor": "description: d\nreadonly: true\nis_background: true",
    "S3": (
        "Description: d\n"
        "Tools: {Mode: AllExcept, ToolList: [task], Overrides: {bash: {Timeout: 90}}}\n"
        "Permissions: [{pattern: 'bash:x', action: deny}]"
    ),
    "two sides": (
        "description: d\n"
        "type: dual_ai\n"
        "sideA: {sessionStop: x}\n"
        "sideB: {prompt: y, stopOnResponse: false}\n"
        "maxSessionTurns: 4"
    ),
    "subagents": (
        "description: d\n"
        "subagents: [{name: a, immediate: true, resumable: {maxInstances: 2}}]\n"
        "can_spawn_subagents: false"
    ),
    "servers": "description: d\nmcpServers: [a, {b: {command: c, args: ['1'], env: {K: v}, timeout: 2.5}}]",
    "money": "description: d\nbudget: {cost: 0.000001234, tokens: 5}\ncompaction: {at: 0.7}\ntimeout: 1.5s",
    "text that needs quotes": (
        "description: 'yes'\n"
        "name: '1e5'\n"
        "tags: ['null', '~', '- a', '1.5', '2024-01-01']\n"
        "version: '1.10'\n"
        'x-a: "\\u202e\\u2028"'
    ),
    "hooks": (
        "description: d\nhooks: {PreToolUse: [{run: x}]}\npermissionMode: acceptEdits\noutput: context.md\ntype: helper"
    ),
    "output": (
        "description: d\n"
        "output: {name: n, schema: {type: object, properties: {a: {type: string}}}}\n"
        "inputs: {a: {type: 'integer[]'}}"
    ),
    "nothing": "",
}


@pytest.mark.spec("DEF-14")
@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS.keys())
def test_the_canonical_form_loads_to_the_same_agent_and_is_its_own_canonical_form(front: str) -> None:
    text = f"---\n{front}\n---\nBody: {{{{x}}}}\r\n\ttail  ".encode()
    once, problems = to_canonical(text, file="agent.md")
    twice, _ = to_canonical(once, file="agent.md")
    before, after = load_text(text, file="agent.md").definition, load_text(once, file="agent.md").definition

    assert not has_errors(problems)
    assert once == twice
    assert before is not None and after is not None
    assert essence(before) == essence(after)
    assert once.endswith(b"\n---\nBody: {{x}}\r\n\ttail  ")


@pytest.mark.spec("DEF-14")
def test_keys_come_in_the_order_of_the_table_under_their_canonical_names() -> None:
    text = b'---\nvibe: calm\ntools: "Read, Grep"\nmodelId: m\nmaxTurns: 3\nDescription: d\n---\nHi\n'

    assert to_canonical(text, file="a.md")[0] == (
        b"---\ndescription: d\nmodel: m\nmax_steps: 3\ntools: [read, grep]\nvibe: calm\n---\nHi\n"
    )


@pytest.mark.spec("DEF-14")
def test_a_formatter_deletes_no_tool_that_it_does_not_know() -> None:
    once, problems = to_canonical(b"---\ndescription: d\ntools: [my_tool, Skill, Read]\n---\nHi", file="a.md")

    assert b"tools: [my_tool, Skill, read]" in once
    assert [p.code for p in problems] == ["unknown-tool", "unavailable-tool"]


@pytest.mark.spec("DEF-14")
@pytest.mark.parametrize("text", [b"---\ntools: true\n---\nHi", b"# No agent\n", b"---\nname: x\n", b"\xff\xfe"])
def test_a_file_with_errors_is_left_alone(text: bytes) -> None:
    after, problems = to_canonical(text, file="a.md")

    assert after == text
    assert has_errors(problems)


def test_a_list_of_remote_agents_stays_a_list() -> None:
    text = b"---\n- {name: a, description: d, agentCardUrl: 'https://a/c'}\n- {name: b, agent_card_json: '{}'}\n---\n"
    once, _ = to_canonical(text, file="a.md")

    assert to_canonical(once, file="a.md")[0] == once
    assert [essence(one.definition) for one in load_all(once, file="a.md") if one.definition] == [
        essence(one.definition) for one in load_all(text, file="a.md") if one.definition
    ]


def test_line_ends_of_the_frontmatter_are_kept() -> None:
    assert to_canonical(b"---\r\nmodelId: m\r\n---\r\nHi\r\n", file="a.md")[0] == b"---\r\nmodel: m\r\n---\r\nHi\r\n"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_what_is_written_reads_back_to_the_same_values(value: dict[str, object]) -> None:
    node = read_yaml(dump(value), 1, lambda _: False)

    assert node is not None
    assert plain(node) == value
