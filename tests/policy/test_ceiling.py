"""What descends to a child."""

import pytest

from retinue.policy.ceiling import denies
from retinue.policy.rules import Tier
from retinue.schema.permission import Rule


@pytest.mark.spec("SUB-04")
def test_denies_descend_without_what_loosens_them_and_asks_do_not() -> None:
    operator = Tier(
        "operator", (Rule(tool="bash", verdict="deny"), Rule(tool="bash", pattern="git *", verdict="allow"))
    )
    user = Tier("user", (Rule(tool="bash", verdict="ask"), Rule(tool="edit", pattern="x", verdict="deny")))

    assert denies([operator, user, operator]) == (operator.rules[0], user.rules[1])
