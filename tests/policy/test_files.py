"""Files judged by what their paths lead to."""

import pytest

from retinue.policy.files import Place, judge_file, lexical, protected
from retinue.policy.rules import Tier
from retinue.ports.tool import Op, Target
from retinue.schema.permission import Rule, Verdict

PLACE = Place("/w", home="/home/u", own=("/data/t1",), protected=("/w/agents", "/srv/retinue"))
NO_SECRETS = Tier("user", (Rule(tool="read", pattern="**/.env*", verdict="deny"),))


def verdict(target: Target, *tiers: Tier, fallback: Verdict = "allow", pattern: bool = False) -> Verdict:
    return judge_file(target, PLACE, tiers=tiers, fallback=fallback, pattern=pattern).verdict


def at(op: Op, path: str) -> Target:
    return lexical(op, path)


@pytest.mark.spec("PERM-03")
@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (at("read", "/w/a.txt"), "allow"),
        (at("read", "/w/../x"), "ask"),
        (at("read", "/w2/x"), "ask"),
        (Target(op="read", asked="/w/link", path="/etc/passwd"), "ask"),
        (Target(op="read", asked="/w/link", path="/w/a.txt"), "allow"),
        (Target(op="write", asked="/w/dir/new", path="/elsewhere/new", kind="absent"), "deny"),
        (at("read", "/w/.env"), "deny"),
        (at("read", "/w/deep/.env.local"), "deny"),
        (Target(op="read", asked="/w/alias", path="/w/.env"), "deny"),
        (Target(op="read", asked="/w/alias", path="/w/alias", names=("/w/.env",)), "deny"),
        (Target(op="read", asked="/w/alias", path="/w/alias", more_names=True), "ask"),
        (at("write", "/w/.git/hooks/pre-commit"), "deny"),
        (at("write", "/w/sub/.git/config"), "deny"),
        (at("write", "/w/.GIT/config"), "deny"),
        (at("write", "/w/.g\u200cit/config"), "deny"),
        (at("write", "/w/.retinue/agents/x.md"), "deny"),
        (
            Target(
                op="write", asked="/w/.retinue/permissions.toml", path="/w/.retinue/permissions.toml", kind="absent"
            ),
            "deny",
        ),
        (at("rename", "/w/.git"), "deny"),
        (at("delete", "/w"), "deny"),
        (at("rename", "/"), "deny"),
        (at("write", "/w/.bashrc"), "deny"),
        (at("write", "/w/agents/x.md"), "deny"),
        (at("write", "/w/.claude/agents/x.md"), "deny"),
        (at("write", "/w/.mcp.json"), "deny"),
        (at("write", "/w/.vscode/tasks.json"), "deny"),
        (at("write", "/w/retinue.toml"), "deny"),
        (at("write", "/w/.github/workflows/ci.yml"), "allow"),
        (at("write", "/w/.gitignore"), "allow"),
        (at("read", "/w/.git/config"), "allow"),
        (at("read", "/proc/self/environ"), "deny"),
        (at("read", "/proc/123/task/4/environ"), "deny"),
        (Target(op="read", asked="/w/pipe", path="/w/pipe", kind="other"), "deny"),
        (at("read", "/w/a\0b"), "deny"),
        (at("read", "/w/a\x1bb"), "deny"),
        (at("read", "/w/~/x"), "allow"),
        (at("read", "/data/t1/cut-1.txt"), "allow"),
        (at("write", "/data/t1/cut-1.txt"), "ask"),
        (at("write", "/srv/retinue/x.db"), "deny"),
    ],
)
def test_a_file_gets_its_verdict(target: Target, wanted: Verdict) -> None:
    assert verdict(target, NO_SECRETS) == wanted


@pytest.mark.spec("PERM-03")
def test_rules_match_within_the_workspace_wherever_it_lies() -> None:
    place = Place("/home/secret/w")
    tier = Tier(
        "agent",
        (Rule(tool="edit", pattern="src/*", verdict="allow"), Rule(tool="edit", pattern="*secret*", verdict="ask")),
    )

    def edit(path: str) -> Verdict:
        return judge_file(lexical("write", path), place, tiers=(tier,), fallback="deny").verdict

    assert [edit("/home/secret/w/src/a"), edit("/home/secret/w/src/secret"), edit("/home/secret/w/b")] == [
        "allow",
        "ask",
        "deny",
    ]


@pytest.mark.spec("PERM-03")
def test_outside_is_allowed_only_by_a_rule_written_from_the_root() -> None:
    everywhere = Tier("user", (Rule(tool="read", verdict="allow"),))
    rooted = Tier("user", (Rule(tool="read", pattern="/usr/share/*", verdict="allow"),))
    home = Tier("user", (Rule(tool="read", pattern="~/notes/*", verdict="allow"),))

    assert verdict(at("read", "/usr/share/doc"), everywhere) == "ask"
    assert verdict(at("read", "/usr/share/doc"), rooted) == "allow"
    assert verdict(at("read", "/home/u/notes/a"), home) == "allow"


@pytest.mark.spec("PERM-03")
def test_no_rule_opens_a_protected_file() -> None:
    everything = Tier(
        "operator", (Rule(tool="edit", verdict="allow"), Rule(tool="edit", pattern="/*", verdict="allow"))
    )

    assert verdict(at("write", "/w/.git/config"), everything) == "deny"
    assert protected("/w/.zshrc", PLACE)


@pytest.mark.spec("PERM-02", "PERM-03")
def test_a_shell_pattern_that_may_match_a_denied_file_is_asked() -> None:
    assert verdict(at("read", "/w/.en?"), NO_SECRETS, pattern=True) == "ask"
    assert verdict(at("read", "/w/src/*.py"), NO_SECRETS, pattern=True) == "allow"
