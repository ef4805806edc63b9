"""The judge itself: directories, rules that mean a risk, and rules for the command around."""

from collections.abc import Sequence

import pytest

from retinue.policy.patterns import matches
from retinue.policy.shell.judge import judge_command
from retinue.policy.shell.judgement import FileUse
from retinue.schema.permission import Decision, Rule, Verdict


def verdict(command: str, *allowed: str, denied: Sequence[str] = ()) -> Verdict:
    def judge(text: str) -> Decision:
        for pattern in denied:
            if matches(pattern, text):
                return Decision(verdict="deny", reason="", rule=Rule(tool="bash", pattern=pattern, verdict="deny"))
        for pattern in allowed:
            if matches(pattern, text):
                return Decision(verdict="allow", reason="", rule=Rule(tool="bash", pattern=pattern, verdict="allow"))
        return Decision(verdict="ask", reason="the default")

    def files(use: FileUse) -> Decision:
        return Decision(verdict=use.fallback, reason="")

    return judge_command(command, judge=judge, files=files, cwd="/w").verdict


def uses(command: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def files(use: FileUse) -> Decision:
        found.append((use.op, use.path))
        return Decision(verdict="allow", reason="")

    allow = Decision(verdict="allow", reason="", rule=Rule(tool="bash", verdict="allow"))
    judge_command(command, judge=lambda _: allow, files=files, cwd="/w", home="/home/u")
    return found


@pytest.mark.spec("PERM-02")
def test_a_rule_that_names_a_risk_means_it() -> None:
    assert verdict("find . -delete", "find *") == "ask"
    assert verdict("find . -delete", "find . -delete") == "allow"
    assert verdict("git config a b", "git *") == "ask"
    assert verdict("git config a b", "git config *") == "allow"
    assert verdict("find . -delete", "*") == "allow"
    assert verdict("sort -o x y", "sort *") == "ask"


@pytest.mark.spec("PERM-02")
def test_a_wrapper_is_as_good_as_what_it_runs() -> None:
    assert verdict("timeout 5 nice -n 3 git log", "git *") == "allow"
    assert verdict("timeout 5 make", "git *") == "ask"
    assert verdict("timeout 5 make", "timeout *") == "ask"
    assert verdict("timeout 5 make lint", "timeout 5 make *") == "allow"
    assert verdict("timeout 5 git log", "git *", denied=["timeout *"]) == "deny"
    assert verdict("sudo git log", "git *") == "ask"
    assert verdict("sudo git log", "git *", "sudo git *") == "allow"
    assert verdict("sudo rm x", "sudo *", denied=["rm *"]) == "deny"


@pytest.mark.spec("PERM-02")
def test_the_program_is_the_one_the_rule_means() -> None:
    assert verdict("/usr/bin/git log", "git *") == "allow"
    assert verdict("/tmp/git log", "git *") == "ask"
    assert verdict("./gradlew test", "./gradlew *") == "allow"
    assert verdict("/tmp/rm x", "*", denied=["rm *"]) == "deny"


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("cat a ../b /c ~/d", [("read", "/w/a"), ("read", "/w/../b"), ("read", "/c"), ("read", "/home/u/d")]),
        ("cd s && cat a", [("read", "/w/s"), ("read", "/w/s/a")]),
        ("cd s; cat a", [("read", "/w/s"), ("read", "/w/a"), ("read", "/w/s/a")]),
        ("(cd s); cat a", [("read", "/w/s"), ("read", "/w/a")]),
        ("cd s && ls b && cat ../a", [("read", "/w/s"), ("read", "/w/s/b"), ("read", "/w/s/../a")]),
        ("cp a b c", [("read", "/w/a"), ("read", "/w/b"), ("write", "/w/c")]),
        ("mv a b", [("rename", "/w/a"), ("write", "/w/b")]),
        ("rm -r a", [("delete", "/w/a")]),
        ("grep -rn pattern src", [("read", "/w/src")]),
        ("grep -e p src", [("read", "/w/src")]),
        ("dd if=a of=b", [("read", "/w/a"), ("write", "/w/b")]),
        ("sort a -o b", [("write", "/w/b"), ("read", "/w/a"), ("read", "/w/b")]),
        ("git diff --output=x", [("write", "/w/x")]),
        ("ls < a 2> b >> c", [("read", "/w/a"), ("write", "/w/b"), ("write", "/w/c")]),
        ("ls > /dev/null 2>&1 < /dev/stdin", []),
        ("find src -name a -fprint b", [("read", "/w/src"), ("write", "/w/b")]),
        ("echo /etc/passwd", []),
    ],
)
def test_files_are_found_where_a_command_uses_them(command: str, wanted: list[tuple[str, str]]) -> None:
    assert uses(command) == wanted
