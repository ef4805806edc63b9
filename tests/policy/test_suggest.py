"""Rules made of what people approved."""

import pytest

from retinue.policy.calls import Authority, judge_call
from retinue.policy.files import Place
from retinue.policy.rules import Tier
from retinue.policy.suggest import Approved, remember, suggest
from retinue.schema.permission import Rule

NOBODY = Authority(tiers=(), fallback="ask", place=Place("/w"))


def approved(command: str) -> Approved:
    return Approved(tool="bash", resource=command, decision=judge_call(NOBODY, "bash", command))


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("git push origin main", "git push *"),
        ("git", "git *"),
        ("npm run build --x", "npm run build *"),
        ("npm test", "npm test *"),
        ("python -m pytest -q", "python -m pytest *"),
        ("python x.py", "python *"),
        ("touch a b", "touch *"),
        ("git -C x log", "git -C x log"),
        ("> out.txt", "> out.txt"),
    ],
)
def test_a_command_is_remembered_by_its_prefix(command: str, pattern: str) -> None:
    assert remember(command) == pattern


@pytest.mark.spec("PERM-06")
def test_the_rules_that_are_suggested_would_have_answered_the_calls() -> None:
    calls = [approved(c) for c in ("git push && make lint", "git push --force", "find . -delete", "make test")]

    rules = suggest(calls)

    assert [rule.pattern for rule in rules] == ["git push *", "make lint *", "find . -delete", "make test *"]
    answered = Authority(tiers=(Tier("user", rules),), fallback="ask", place=Place("/w"))
    assert [judge_call(answered, "bash", call.resource).verdict for call in calls] == ["allow"] * 4


def test_what_no_rule_can_answer_is_not_suggested() -> None:
    assert suggest([approved("$cmd x"), approved("git log | sh")]) == (
        Rule(tool="bash", pattern="git log *", verdict="allow"),
    )


def test_files_of_one_folder_are_answered_by_the_folder_and_pages_by_their_host() -> None:
    calls = [
        Approved(tool="write", resource="conf/a.toml"),
        Approved(tool="edit", resource="conf/b.toml"),
        Approved(tool="edit", resource="setup.py"),
        Approved(tool="webfetch", resource="https://docs.example/a"),
        Approved(tool="webfetch", resource="https://docs.example/b"),
        Approved(tool="mcp_git_log", resource=""),
    ]

    assert {(rule.tool, rule.pattern) for rule in suggest(calls)} == {
        ("edit", "conf/*"),
        ("edit", "setup.py"),
        ("webfetch", "https://docs.example/*"),
        ("mcp_git_log", "*"),
    }
