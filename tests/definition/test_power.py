"""No damage to a file may give an agent more than its file says.

A file is a row of blocks. Blocks that grant power stay as they are; everything
between them is damaged at will. The file is then refused, or its power is what
it was: another reading of a power block, a lost one or an invented one fails here.
"""

import json
import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from retinue.definition.keys import KEYS, grants_power
from retinue.definition.load import load_text
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId

POWER_FIELDS = sorted(
    {key.name for key in KEYS if key.power and key.name in AgentDefinition.__struct_fields__}
    | {"fallback_models", "inline_mcp_servers"}
)

POWER_BLOCKS = (
    "tools: Read, Grep\n",
    'tools: ["Read", "Bash(git diff:*)"]\n',
    "tools:\n  - read\n  - glob\n",
    "tools:\n- read\n- list\n",
    "tools:\n  bash: false\n  write: false\n",
    "allowed_tools: [read]\n",
    "disallowedTools: Bash, Write\n",
    "permission:\n  edit: deny\n  bash:\n    '*': ask\n    git *: allow\n",
    "permissionMode: plan\n",
    "model: sonnet\n",
    "allowed_commands:\n  - git status\n",
    "readonly: true\n",
    "sandbox: require\n",
    "category: subagent\n",
    "agents: []\n",
)
TEXT_BLOCKS = (
    "name: reviewer\n",
    "description: Reviews code. Use it: often\n",
    "description: 'Reviews code'\n",
    'description: "Reviews: code"\n',
    "description: >\n  Reviews code\n  and more\n",
    'description: Examples <example>Context: a user says "hi"</example>\n',
    "color: blue\n",
    "vibe: calm\n",
    "tags: [a, b]\n",
    "metadata:\n  a: {b: c}\n  d: [e]\n",
    "# a comment\n",
    "temperature: 0.2\n",
)
NASTY = st.sampled_from(
    [
        *"\"'[]{}():,#|>-?&*!%@`~\\ \t\n\r.xT0",
        "\n\n",
        "\n  ",
        "\n---\n",
        "\n...\n",
        "\n- ",
        ": ",
        " #",
        "<<: ",
        "? ",
        "&a ",
        "*a",
        "!!str ",
        "|\n",
        ">-\n",
        "\u2028",
        "\u00a0",
        "\u0085",
        "\x00",
        "é",
    ]
)


def power(definition: AgentDefinition) -> dict[str, object]:
    permissions = definition.permissions
    rules = tuple(msgspec.structs.replace(rule, origin="") for rule in permissions.rules)
    found = {name: getattr(definition, name) for name in POWER_FIELDS}
    return {**found, "permissions": msgspec.structs.replace(permissions, rules=rules)}


def load(front: str) -> AgentDefinition | None:
    text = f"---\n{front}---\nYou review code.\n"
    return load_text(text.encode(), file="a.md", id=AgentId("a")).definition


_STARTS = re.compile(r"""^[\s"'?{\[-]*([A-Za-z_][\w-]*)["']?\s*:""", re.MULTILINE)


def says_power(text: str) -> bool:
    """Whether damaged text came to hold a line that starts with a power key."""
    return any(grants_power(match[1]) for match in _STARTS.finditer(text.replace("\r", "\n")))


@st.composite
def damaged(draw: st.DrawFn, blocks: Sequence[str]) -> list[str]:
    """Blocks in which everything but power was edited; the line break before a power block stays."""
    result = list(blocks)
    targets = [i for i, block in enumerate(blocks) if block not in POWER_BLOCKS]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.sampled_from(targets))
        text = result[at].removesuffix("\n")
        where = draw(st.integers(0, len(text)))
        match draw(st.sampled_from(["insert", "delete", "replace", "indent", "double", "drop", "cut"])):
            case "insert":
                text = text[:where] + draw(NASTY) + text[where:]
            case "delete":
                text = text[:where] + text[where + draw(st.integers(1, 3)) :]
            case "replace":
                text = text[:where] + draw(NASTY) + text[where + 1 :]
            case "indent":
                text = re.sub("^", " " * draw(st.integers(1, 3)), text, count=1)
            case "double":
                text = f"{text}\n{text}"
            case "drop":
                text = ""
            case _:
                text = text[:where]
        result[at] = text + "\n"
    return result


@st.composite
def files(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    powers = draw(st.lists(st.sampled_from(POWER_BLOCKS), min_size=1, max_size=3, unique_by=lambda b: b.split(":")[0]))
    texts = draw(st.lists(st.sampled_from(TEXT_BLOCKS), min_size=1, max_size=4, unique_by=lambda b: b.split(":")[0]))
    blocks = draw(st.permutations([*powers, *texts]))
    return list(blocks), draw(damaged(blocks))


@pytest.mark.spec("DEF-07")
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(files())
def test_damage_between_power_keys_never_changes_power(pair: tuple[list[str], list[str]]) -> None:
    blocks, broken = pair
    assume(not any(says_power(block) for block in broken if block not in POWER_BLOCKS))
    original = load("".join(blocks))
    assume(original is not None)
    assert original is not None
    after = load("".join(broken))

    assert after is None or power(after) == power(original)


HARMLESS = ("color: blue\n", "vibe: calm\n", "description: d\n", "description: a: b\n", "# note\n", "\n")


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize("block", [b for b in POWER_BLOCKS if b.count("\n") > 1])
def test_a_line_put_into_a_power_block_or_its_first_line_lost_never_changes_power(block: str) -> None:
    original = load(f"name: a\n{block}")
    assert original is not None
    lines = block.splitlines(keepends=True)
    cut = load(f"name: a\n{''.join(lines[1:])}")
    assert cut is None
    for at in range(1, len(lines)):
        for line in HARMLESS:
            after = load(f"name: a\n{''.join(lines[:at])}{line}{''.join(lines[at:])}")
            assert after is None or after.allowed_commands == () or power(after) == power(original), line


LIMITING = [b for b in POWER_BLOCKS if not b.startswith(("category", "agents"))]
ONE_LINE = [b for b in TEXT_BLOCKS if b.count("\n") == 1 and not b.startswith("#")]


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize("glue", ["", ".", " "])
@pytest.mark.parametrize("text", ONE_LINE)
def test_a_line_break_lost_before_a_limiting_key_never_lifts_the_limit(text: str, glue: str) -> None:
    for block in LIMITING:
        original = load(text + block)
        after = load(text.removesuffix("\n") + glue + block)
        assert original is not None
        assert after is None or power(after) == power(original), block


NAMES = st.sampled_from(["Read", "read", "Bash", "mcp__x__y", "NoSuchTool", "skill", "Tool With Spaces", "x/*", "Edit"])


@pytest.mark.spec("DEF-07")
@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, unique=True), NAMES)
def test_an_unknown_name_never_widens_an_allow_list(names: list[str], more: str) -> None:
    before = load(f"tools: {json.dumps(names)}\n")
    after = load(f"tools: {json.dumps([n for n in names if n != more])}\n")
    assert before is not None and after is not None
    assert before.tools.only and after.tools.only
    assert set(after.tools.only[0]) <= set(before.tools.only[0])
    assert "*" not in before.tools.only[0]


@pytest.mark.spec("DEF-07")
@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, min_size=1, unique=True))
def test_every_denied_name_stays_denied(names: list[str]) -> None:
    definition = load(f"disallowed_tools: {json.dumps(names)}\n")
    assert definition is not None
    assert len(definition.tools.denied) >= len({n.lower() for n in names}) - 1
    for name in names:
        alone = load(f"disallowed_tools: {json.dumps([name])}\n")
        assert alone is not None
        assert alone.tools.denied
        assert set(alone.tools.denied) <= set(definition.tools.denied)
