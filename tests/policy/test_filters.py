"""Which tools are offered."""

import pytest

from retinue.policy.filters import denied_outright, offered
from retinue.policy.rules import Tier
from retinue.policy.rulesets import RULESETS
from retinue.schema.agent import ToolFilter
from retinue.schema.permission import Rule

NAMES = {"read", "write", "edit", "multi_edit", "bash", "mcp_git_log", "mcp_mail_send"}
SYSTEM = {"complete_agent_execution", "request_user_input", "save_memory"}


@pytest.mark.spec("TOOL-02")
def test_no_list_is_all_and_an_empty_list_is_none() -> None:
    assert offered(ToolFilter(), NAMES) == NAMES
    assert offered(ToolFilter(only=((),)), NAMES) == set()


@pytest.mark.spec("TOOL-02")
def test_lists_intersect_and_denied_tools_are_subtracted() -> None:
    both = ToolFilter(only=(("read", "bash", "mcp_*"), ("bash", "mcp_git_*", "edit")), denied=("bash",))

    assert offered(both, NAMES) == {"mcp_git_log"}
    assert offered(ToolFilter(denied=("mcp_*", "write")), NAMES) == {"read", "edit", "multi_edit", "bash"}


@pytest.mark.spec("TOOL-02")
def test_edit_stands_for_multi_edit_too() -> None:
    assert offered(ToolFilter(only=(("edit",),)), NAMES) == {"edit", "multi_edit"}
    assert offered(ToolFilter(denied=("edit",)), NAMES) == NAMES - {"edit", "multi_edit"}


@pytest.mark.spec("TOOL-10")
def test_system_tools_stay_unless_denied_by_name_and_completion_always_does() -> None:
    none = ToolFilter(only=((),), denied=("save_memory", "complete_agent_execution"))

    assert offered(none, NAMES | SYSTEM) == {"complete_agent_execution", "request_user_input"}


@pytest.mark.spec("PERM-02")
def test_an_empty_list_of_commands_removes_bash_and_no_list_adds_it() -> None:
    assert "bash" not in offered(ToolFilter(), NAMES, allowed_commands=())
    assert "bash" in offered(ToolFilter(), NAMES, allowed_commands=("git *",))
    assert offered(ToolFilter(only=(("read",),)), NAMES, allowed_commands=("git *",)) == {"read"}


@pytest.mark.spec("TOOL-02")
def test_a_tool_that_rules_deny_outright_is_not_offered() -> None:
    explorer = Tier("agent", RULESETS["explorer"].rules)
    reopened = Tier("user", (Rule(tool="bash", verdict="deny"), Rule(tool="bash", pattern="git *", verdict="allow")))

    assert offered(ToolFilter(), NAMES, tiers=[explorer], fallback="deny") == {"read"}
    assert not denied_outright("bash", [reopened], "ask")
    assert denied_outright("bash", [reopened, explorer], "ask")
