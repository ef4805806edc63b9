"""A whole call judged."""

import pytest

from retinue.policy.calls import Authority, judge_call, judge_target
from retinue.policy.files import Place, lexical
from retinue.policy.rules import Tier, call_digest
from retinue.policy.rulesets import RULESETS
from retinue.ports.memory import Grant
from retinue.ports.tool import Op, Target
from retinue.schema.permission import Rule, Verdict

PRIMARY = Tier("agent", RULESETS["primary"].rules)


def authority(*grants: Grant, tiers: tuple[Tier, ...] = (PRIMARY,)) -> Authority:
    return Authority(tiers=tiers, fallback="ask", place=Place("/w", home="/home/u"), grants=grants)


@pytest.mark.spec("PERM-02", "PERM-03", "PERM-04")
@pytest.mark.parametrize(
    ("tool", "resource", "wanted"),
    [
        ("bash", "git status && ls src", "allow"),
        ("bash", "git log > src/log.txt", "allow"),
        ("bash", "git log > log.txt", "ask"),
        ("bash", "rm -rf /", "deny"),
        ("bash", "bash -c 'rm -rf /'", "deny"),
        ("bash", "python -c 'print(1)'", "ask"),
        ("bash", "python -m pytest -q", "allow"),
        ("bash", "sort -o x y", "ask"),
        ("bash", "sed -n 1,5p a.py", "allow"),
        ("bash", "sed -i s/a/b/ a.py", "ask"),
        ("webfetch", "https://example.com/", "ask"),
        ("webfetch", "http://169.254.169.254/", "deny"),
        ("websearch", "anything", "allow"),
        ("unknown_tool", "", "ask"),
    ],
)
def test_each_tool_is_judged_in_its_own_way(tool: str, resource: str, wanted: Verdict) -> None:
    assert judge_call(authority(), tool, resource).verdict == wanted


@pytest.mark.spec("PERM-03")
def test_files_that_a_tool_found_are_judged_one_by_one() -> None:
    targets = [lexical("write", "/w/src/a"), lexical("write", "/w/.git/config")]

    assert judge_call(authority(), "multi_edit", "src/a", targets=targets[:1]).verdict == "allow"
    assert judge_call(authority(), "multi_edit", "src/a", targets=targets).verdict == "deny"


@pytest.mark.spec("PERM-03")
def test_searching_is_bound_by_the_rules_for_reading() -> None:
    tiers = (PRIMARY, Tier("user", (Rule(tool="read", pattern="private/*", verdict="deny"),)))

    assert judge_target(authority(tiers=tiers), lexical("read", "/w/private/x"), "grep").verdict == "deny"
    assert judge_target(authority(tiers=tiers), lexical("read", "/w/x"), "grep").verdict == "allow"


@pytest.mark.spec("PERM-02", "PERM-03")
def test_files_in_a_command_are_judged_by_what_they_resolve_to() -> None:
    def resolve(op: Op, path: str) -> Target:
        return Target(op=op, asked=path, path="/w/.git/config" if path == "/w/src/link" else path)

    assert judge_call(authority(), "bash", "echo x > src/link", resolve=resolve).verdict == "deny"
    assert judge_call(authority(), "bash", "echo x > link", cwd="/w/src", resolve=resolve).verdict == "deny"


@pytest.mark.spec("PERM-05")
def test_a_pattern_that_was_granted_answers_each_command_it_covers_and_no_other() -> None:
    granted = authority(Grant(tool="bash", pattern="task *", created_at=0))

    assert judge_call(granted, "bash", "task lint && git status").verdict == "allow"
    assert judge_call(granted, "bash", "task lint && cp x y").verdict == "ask"
    assert judge_call(granted, "bash", "task lint > ../other").verdict == "ask"
    assert judge_call(granted, "bash", "task lint > .git/config").verdict == "deny"


@pytest.mark.spec("PERM-05")
def test_an_exact_approval_answers_the_whole_call_only() -> None:
    arguments = '{"command":"touch x; $y"}'
    granted = authority(Grant(tool="bash", pattern="*", exact=call_digest("bash", arguments, ""), created_at=0))

    def verdict(text: str) -> Verdict:
        return judge_call(granted, "bash", "touch x; $y", digest=call_digest("bash", text, "")).verdict

    assert verdict(arguments) == "allow"
    assert verdict('{"command":"touch x; $z"}') == "ask"


@pytest.mark.spec("PERM-05")
def test_a_pattern_that_was_granted_for_files_is_matched_on_what_they_resolve_to() -> None:
    granted = authority(Grant(tool="edit", pattern="conf/*", created_at=0))

    def verdict(asked: str, path: str) -> Verdict:
        return judge_call(granted, "write", asked, targets=[Target(op="write", asked=asked, path=path)]).verdict

    assert verdict("/w/conf/a", "/w/conf/a") == "allow"
    assert verdict("/w/conf/../setup.py", "/w/setup.py") == "ask"
    assert verdict("/w/conf/link", "/w/.git/config") == "deny"
