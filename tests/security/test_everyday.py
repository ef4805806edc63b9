"""What developers type all day runs unasked under the shipped rules; what is hard to undo does not."""

from collections.abc import Callable

import pytest

from retinue.policy.calls import Authority, judge_call
from retinue.policy.files import Place
from retinue.policy.rulesets import agent_tiers, default_verdict
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId

Table = Callable[[str], list[tuple[str, str, str]]]


@pytest.mark.spec("PERM-01", "PERM-02")
def test_everyday_commands_get_the_verdict_that_a_person_expects(table: Table) -> None:
    agent = AgentDefinition(id=AgentId("coder"), name="coder")
    made = Authority(
        tiers=agent_tiers(agent), fallback=default_verdict(agent.permissions), place=Place("/w", home="/home/u")
    )
    rows = table("everyday.tsv")

    wrong = [
        (command, wanted, decision.verdict, decision.reason)
        for command, wanted, _ in rows
        if (decision := judge_call(made, "bash", command)).verdict != wanted
    ]

    assert len(rows) > 300
    assert wrong == []
