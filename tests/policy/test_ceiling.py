"""What descends to a child."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.policy.ceiling import ceiling, denies, planning_tier
from retinue.policy.rules import Tier, authorize, merge
from retinue.schema.permission import STRICTNESS, Rule, TierName, Verdict

VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(("allow", "ask", "deny"))
NAMES: st.SearchStrategy[TierName] = st.sampled_from(("operator", "user", "project", "agent", "session"))
RULES = st.builds(
    Rule, tool=st.sampled_from(("bash", "edit", "*")), pattern=st.sampled_from(("*", "a *", "a b")), verdict=VERDICTS
)
TIERS = st.lists(st.builds(Tier, NAMES, st.lists(RULES, max_size=4).map(tuple)), max_size=4).map(tuple)
CALLS = st.tuples(st.sampled_from(("bash", "edit", "read")), st.sampled_from(("a", "a b", "b")))


def verdict(call: tuple[str, str], tiers: tuple[Tier, ...]) -> Verdict:
    return authorize(*call, tiers, fallback="allow").verdict


@pytest.mark.spec("SUB-04")
@given(TIERS, TIERS, TIERS, CALLS)
def test_a_child_never_exceeds_what_any_caller_above_it_is_denied(
    root: tuple[Tier, ...], middle: tuple[Tier, ...], child: tuple[Tier, ...], call: tuple[str, str]
) -> None:
    over_middle = ceiling(root)
    over_child = ceiling(middle, inherited=over_middle)

    granted = verdict(call, merge(child, over_child))

    for caller in (root, middle):
        outside = tuple(tier for tier in caller if tier.name != "agent")
        if verdict(call, outside) == "deny":
            assert granted == "deny"
    assert STRICTNESS[granted] >= STRICTNESS[verdict(call, child)]


@pytest.mark.spec("SUB-04")
def test_a_callers_own_rules_and_asks_do_not_descend() -> None:
    agent = Tier("agent", (Rule(tool="bash", verdict="deny"),))
    user = Tier("user", (Rule(tool="bash", verdict="ask"), Rule(tool="edit", pattern="x", verdict="deny")))

    above = ceiling([agent, user])

    assert verdict(("bash", "ls"), above) == "allow"
    assert verdict(("edit", "x"), above) == "deny"


@pytest.mark.spec("SUB-04")
def test_an_exception_to_a_deny_descends_with_it() -> None:
    operator = Tier(
        "operator", (Rule(tool="bash", verdict="deny"), Rule(tool="bash", pattern="git *", verdict="allow"))
    )

    above = ceiling([operator])

    assert [verdict(("bash", c), above) for c in ("git log", "ls")] == ["allow", "deny"]
    assert denies(above) == (operator.rules[0],)


@pytest.mark.spec("SUB-04", "RUN-07")
def test_planning_lets_children_read_ask_and_delegate_and_nothing_else() -> None:
    above = ceiling([], planning=planning_tier(["mcp_docs_find"]))

    def allowed(tool: str) -> bool:
        return verdict((tool, "x"), above) == "allow"

    readers = ("read", "grep", "todo", "question", "task", "agent_explore", "mcp_docs_find", "webfetch")
    assert all(allowed(tool) for tool in readers)
    assert not any(allowed(tool) for tool in ("edit", "write", "bash", "save_memory", "mcp_mail_send"))
