"""Tiers, grants, and what merging can't do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.policy.rules import Tier, allowed_commands, apply_grants, authorize, call_digest
from retinue.ports.memory import Grant
from retinue.ports.tool import Target
from retinue.schema.ids import ThreadId
from retinue.schema.permission import STRICTNESS, Decision, Rule, TierName, Verdict

VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(("allow", "ask", "deny"))
NAMES: st.SearchStrategy[TierName] = st.sampled_from(("operator", "user", "project", "agent", "session"))
RULES = st.builds(
    Rule,
    tool=st.sampled_from(("bash", "edit", "write", "read", "*")),
    pattern=st.sampled_from(("*", "a *", "a b", "b*", "src/*")),
    verdict=VERDICTS,
)
TIERS = st.lists(st.builds(Tier, NAMES, st.lists(RULES, max_size=4).map(tuple)), max_size=4).map(tuple)
CALLS = st.tuples(st.sampled_from(("bash", "edit", "multi_edit", "read")), st.sampled_from(("a", "a b", "b", "src/x")))
ASK = Decision(verdict="ask", reason="no rule matches")


def rule(verdict: Verdict, pattern: str, tool: str = "bash") -> Rule:
    return Rule(tool=tool, pattern=pattern, verdict=verdict)


def judged(call: tuple[str, str], tiers: tuple[Tier, ...], fallback: Verdict = "ask") -> int:
    return STRICTNESS[authorize(*call, tiers, fallback=fallback).verdict]


@pytest.mark.spec("PERM-01")
def test_within_a_tier_the_last_match_wins_and_across_tiers_the_strictest() -> None:
    user = Tier("user", (rule("deny", "git *"), rule("allow", "git status")))
    agent = Tier("agent", (rule("ask", "git status"),))

    assert authorize("bash", "git status", [user], fallback="ask").verdict == "allow"
    assert authorize("bash", "git push", [user, agent], fallback="allow").verdict == "deny"
    assert authorize("bash", "git status", [user, agent], fallback="allow") == Decision(
        verdict="ask", reason="the agent's rule says ask: bash git status", tier="agent", rule=agent.rules[0]
    )
    assert authorize("bash", "ls", [user, agent], fallback="deny").verdict == "deny"


@pytest.mark.spec("PERM-01")
def test_write_edit_and_multi_edit_are_one_category() -> None:
    tier = Tier("user", (rule("deny", "src/*", tool="write"),))

    assert [authorize(t, "src/a", [tier], fallback="ask").verdict for t in ("edit", "multi_edit", "write", "read")] == [
        "deny",
        "deny",
        "deny",
        "ask",
    ]


@pytest.mark.spec("PERM-01")
@given(TIERS, CALLS, st.lists(RULES, max_size=4))
def test_a_project_only_tightens(tiers: tuple[Tier, ...], call: tuple[str, str], rules: list[Rule]) -> None:
    assert judged(call, (*tiers, Tier("project", tuple(rules)))) >= min(judged(call, tiers), STRICTNESS["ask"])
    allows = Tier("project", tuple(rule("allow", r.pattern, r.tool) for r in rules))
    assert judged(call, (*tiers, allows)) == judged(call, tiers)


@pytest.mark.spec("PERM-01")
@given(TIERS, CALLS, st.data())
def test_adding_a_deny_never_allows_more(tiers: tuple[Tier, ...], call: tuple[str, str], data: st.DataObject) -> None:
    deny = data.draw(RULES.map(lambda r: rule("deny", r.pattern, r.tool)))
    index = data.draw(st.integers(0, len(tiers)))
    if index == len(tiers):
        after = (*tiers, Tier("user", (deny,)))
    else:
        at = data.draw(st.integers(0, len(tiers[index].rules)))
        changed = Tier(tiers[index].name, (*tiers[index].rules[:at], deny, *tiers[index].rules[at:]))
        after = (*tiers[:index], changed, *tiers[index + 1 :])

    assert judged(call, after) >= judged(call, tiers) or judged(call, tiers) == STRICTNESS["ask"]
    assert judged(call, after, "allow") >= judged(call, tiers, "allow")


@pytest.mark.spec("PERM-01")
@given(TIERS, TIERS, TIERS, CALLS)
def test_more_tiers_never_turn_deny_into_ask(
    a: tuple[Tier, ...], b: tuple[Tier, ...], c: tuple[Tier, ...], call: tuple[str, str]
) -> None:
    if judged(call, a) == STRICTNESS["deny"]:
        assert judged(call, (*b, *a, *c)) == STRICTNESS["deny"]


@pytest.mark.spec("PERM-02")
def test_listed_commands_allow_and_others_ask_at_most() -> None:
    tiers = [Tier("agent", allowed_commands(("git *", "npm test"))), Tier("user", (rule("allow", "ls *"),))]

    verdicts = [authorize("bash", c, tiers, fallback="deny").verdict for c in ("git log", "npm test", "ls", "make")]

    assert verdicts == ["allow", "allow", "ask", "ask"]
    assert allowed_commands(None) == ()


@pytest.mark.spec("PERM-05")
def test_a_grant_turns_ask_into_allow_and_nothing_else() -> None:
    always = Grant(tool="bash", pattern="make *", created_at=0, number=7)
    deny = Decision(verdict="deny", reason="no")

    granted = apply_grants(ASK, [always], tool="bash", names=["make lint"])

    assert (granted.verdict, granted.rule and granted.rule.origin) == ("allow", "grant 7")
    assert apply_grants(deny, [always], tool="bash", names=["make lint"]) == deny
    assert apply_grants(ASK, [always], tool="bash", names=["rm x"]) == ASK
    assert apply_grants(ASK, [always], tool="read", names=["make lint"]) == ASK


@pytest.mark.spec("PERM-05")
def test_a_grant_for_one_thread_or_one_definition_stays_there() -> None:
    mine = Grant(tool="edit", pattern="*", thread=ThreadId("t1"), definition_hash="h1", created_at=0)

    def verdict(thread: str, definition: str) -> Verdict:
        return apply_grants(ASK, [mine], tool="write", names=["a"], thread=thread, definition_hash=definition).verdict

    assert [verdict("t1", "h1"), verdict("t2", "h1"), verdict("t1", "h2")] == ["allow", "ask", "ask"]


@pytest.mark.spec("PERM-05")
def test_an_approval_binds_to_the_exact_call() -> None:
    digest = call_digest("write", '{"path":"a","content":"x"}', "h1")
    once = Grant(tool="write", pattern="a", exact=digest, created_at=0)

    def verdict(arguments: str, definition: str = "h1") -> Verdict:
        found = call_digest("write", arguments, definition)
        return apply_grants(ASK, [once], tool="write", names=["a"], digest=found).verdict

    assert verdict('{"path":"a","content":"x"}') == "allow"
    assert verdict('{"path":"a","content":"y"}') == "ask"
    assert verdict('{"path":"a","content":"x"}', "h2") == "ask"
    assert call_digest("a", "bc", "d") != call_digest("ab", "c", "d")


@pytest.mark.spec("PERM-05")
def test_an_approval_binds_to_the_file_that_was_found() -> None:
    seen = Target(op="write", asked="/w/a", path="/w/a", identity="1:2", content="c0ffee")
    swapped = Target(op="write", asked="/w/a", path="/w/a", identity="1:3", content="c0ffee")

    assert call_digest("write", "{}", "h", [seen]) == call_digest("write", "{}", "h", [seen])
    assert call_digest("write", "{}", "h", [seen]) != call_digest("write", "{}", "h", [swapped])
