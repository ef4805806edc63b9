import json
from pathlib import Path

import msgspec
import pytest

from retinue.definition.toolnames import CANONICAL, canonical, unavailable

NAMES = Path(__file__).parents[3] / "shared" / "corpus" / "tool_names.json"
CAPABILITIES = {"task(delegate)": ("task",), "memory": ("save_memory", "load_memory"), "all": ("*",)}


@pytest.mark.spec("TOOL-01", "DEF-06")
@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("Read", "read"),
        ("run_shell_command", "bash"),
        ("search/codebase", "grep"),
        ("TodoWrite", "todo"),
        ("runSubagent", "task"),
        ("AskUserQuestion", "question"),
        ("multi_edit", "edit"),
        ("google_web_search", "websearch"),
        ("complete_task", "complete_agent_execution"),
    ],
)
def test_other_tools_names_are_aliases(name: str, ours: str) -> None:
    assert canonical(name) == (ours,)
    assert canonical(name.upper()) == (ours,)


def test_our_own_names_are_known() -> None:
    assert {name for name in CANONICAL if canonical(name) is None} == set()


@pytest.mark.spec("DEF-06")
def test_a_capability_that_we_lack_is_told_from_a_misspelling() -> None:
    assert canonical("activate_skill") is None
    assert unavailable("activate_skill") == "skill"
    assert unavailable("actvate_skill") is None


@pytest.mark.skipif(not NAMES.exists(), reason="the corpus is not beside the repository")
@pytest.mark.spec("DEF-06")
def test_every_name_seen_in_the_wild_has_its_capability() -> None:
    seen = msgspec.convert(json.loads(NAMES.read_text())["map"], dict[str, str])
    wrong = {
        name: capability
        for name, capability in seen.items()
        if canonical(name) != CAPABILITIES.get(capability, (capability,)) and unavailable(name) != capability
    }

    assert wrong == {}
