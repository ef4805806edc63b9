"""A decision told."""

import pytest

from retinue.policy.explain import explain, lines
from retinue.schema.permission import CommandDecision, Decision, Rule


@pytest.mark.spec("PERM-06")
def test_an_explanation_names_the_rule_its_place_and_each_command() -> None:
    rule = Rule(tool="bash", pattern="rm *", verdict="deny", origin="retinue.toml:12")
    decision = Decision(
        verdict="deny",
        reason="hard to undo",
        tier="user",
        rule=rule,
        commands=(
            CommandDecision(
                command="git push",
                verdict="allow",
                reason="ok",
                rule=Rule(tool="bash", pattern="git *", verdict="allow"),
            ),
            CommandDecision(command="rm -rf x", verdict="deny", reason="hard to undo", rule=rule),
            CommandDecision(command="make", verdict="ask", reason="no rule matches"),
        ),
    )

    told = explain(decision)

    assert (told.verdict, told.rule, told.origin, told.tier) == ("deny", "deny bash rm *", "retinue.toml:12", "user")
    assert [(c.command, c.verdict, c.rule, c.origin) for c in told.commands] == [
        ("git push", "allow", "allow bash git *", "built in"),
        ("rm -rf x", "deny", "deny bash rm *", "retinue.toml:12"),
        ("make", "ask", None, None),
    ]
    assert lines(told) == [
        "deny: hard to undo",
        "  rule: deny bash rm * (retinue.toml:12)",
        "  allow  git push  [allow bash git *]",
        "  deny   rm -rf x  [deny bash rm *]",
        "  ask    make  [no rule matches]",
    ]
