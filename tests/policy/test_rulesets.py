"""The rulesets that ship, and an agent's own tiers."""

import pytest

from retinue.policy.rules import authorize
from retinue.policy.rulesets import RULESETS, agent_tiers, default_verdict
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.schema.permission import Permissions, Rule, RulesetName, Verdict


def agent(permissions: Permissions, commands: tuple[str, ...] | None = None) -> AgentDefinition:
    return AgentDefinition(id=AgentId("a"), name="a", permissions=permissions, allowed_commands=commands)


def verdict(definition: AgentDefinition, tool: str, resource: str) -> Verdict:
    fallback = default_verdict(definition.permissions)
    return authorize(tool, resource, agent_tiers(definition), fallback=fallback, home="/home/u").verdict


@pytest.mark.spec("PERM-01")
@pytest.mark.parametrize(
    ("ruleset", "tool", "resource", "wanted"),
    [
        ("primary", "read", "a", "allow"),
        ("primary", "write", "src/a.py", "allow"),
        ("primary", "edit", "setup.py", "ask"),
        ("primary", "edit", "src/.env", "ask"),
        ("primary", "edit", "/home/u/x", "ask"),
        ("primary", "edit", "/etc/hosts", "deny"),
        ("primary", "bash", "git push", "allow"),
        ("primary", "bash", "rm x", "ask"),
        ("primary", "bash", "rm -rf /", "deny"),
        ("primary", "bash", "curl h", "ask"),
        ("primary", "webfetch", "https://h/", "ask"),
        ("primary", "websearch", "q", "allow"),
        ("primary", "task", "explore", "allow"),
        ("primary", "mcp_x_y", "", "ask"),
        ("explorer", "grep", "a", "allow"),
        ("explorer", "read", ".env", "deny"),
        ("explorer", "edit", "src/a", "deny"),
        ("explorer", "bash", "ls", "deny"),
        ("explorer", "task", "x", "deny"),
        ("explorer", "todo", "", "deny"),
        ("planner", "todo", "", "allow"),
        ("planner", "question", "", "allow"),
        ("planner", "write", "a", "deny"),
        ("planner", "webfetch", "https://h/", "deny"),
        ("researcher", "webfetch", "https://h/", "allow"),
        ("researcher", "read", "credentials.json", "deny"),
        ("researcher", "list", ".", "deny"),
        ("researcher", "bash", "ls", "deny"),
    ],
)
def test_a_ruleset_decides(ruleset: RulesetName, tool: str, resource: str, wanted: Verdict) -> None:
    assert verdict(agent(Permissions(ruleset=ruleset)), tool, resource) == wanted


@pytest.mark.spec("PERM-01")
def test_an_agents_rules_come_after_its_ruleset_and_may_change_the_default() -> None:
    rules = (
        Rule(tool="bash", pattern="make *", verdict="allow"),
        Rule(tool="read", pattern="private/*", verdict="deny"),
    )
    definition = agent(Permissions(rules=rules, default="deny"))

    assert [verdict(definition, "bash", c) for c in ("make lint", "npx x")] == ["allow", "deny"]
    assert verdict(definition, "read", "private/x") == "deny"


@pytest.mark.spec("PERM-02")
def test_allowed_commands_loosen_an_ask_of_the_ruleset_and_never_a_deny() -> None:
    definition = agent(Permissions(), ("rm *", "make lint"))

    assert [verdict(definition, "bash", c) for c in ("rm x", "make lint", "git log", "rm -rf /")] == [
        "allow",
        "allow",
        "ask",
        "deny",
    ]
    assert verdict(definition, "read", "a") == "allow"


def test_every_ruleset_that_the_schema_names_ships() -> None:
    assert set(RULESETS) == {"primary", "planner", "explorer", "researcher"}
