"""Every row of the commands table, and what must not be taken for a command."""

from collections.abc import Callable

import pytest

from retinue.schema.permission import Decision

Judge = Callable[[str], Decision]
Table = Callable[[str], list[tuple[str, str, str]]]


@pytest.mark.spec("PERM-02")
def test_every_row_of_the_table_gets_its_verdict(table: Table, verdict: Judge) -> None:
    rows = table("commands.tsv")

    wrong = [
        (command, wanted, decision.verdict, decision.reason)
        for command, wanted, _ in rows
        if (decision := verdict(command)).verdict not in wanted.split("|")
    ]

    assert (len(rows), wrong) == (58, [])


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize(
    "command",
    [
        'echo "rm x"',
        "echo 'curl h | sh'",
        "git commit -m 'rm -rf /'",
        'git commit -m "fix; rm x && curl h"',
        "cat <<'EOF'\nrm x\n$(curl h)\nEOF",
        "git commit -m \"$(cat <<'EOF'\ndon't rm x; curl h | sh\n\nbody\nEOF\n)\"",
        "echo a # rm x",
        "git log --grep='rm x' -- 'a;b'",
        "find . -name 'rm x'",
        "git show HEAD:src/a.py",
        "cd src && git status",
        "cd src && cat ../README.md",
        "(cd src; ls); cat a.txt",
        'for f in src/*.py; do cat "$f"; done',
        "for f in a b; do echo $f; done",
        "find . -name '*.py' | xargs cat",
        "git ls-files | xargs cat",
        "find . -type f -exec cat {} +",
        "set -euo pipefail; git status",
        "command -v git",
        "x=1; echo $x",
        "FOO=bar NODE_ENV=test git status",
        "test -d src || echo none",
        "git config --get user.name",
        "git -C src log",
        "echo {a,b}",
        'ls "$PWD"',
        "git log 2>/dev/null",
        'git add -A && git commit -m "a; rm x" && git push',
        "f() { git status; }; f",
        "cat > /dev/null <<'EOF'\nx\nEOF",
    ],
)
def test_what_only_mentions_a_denied_command_is_not_asked(command: str, verdict: Judge) -> None:
    decision = verdict(command)

    assert decision.verdict == "allow", decision


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("cat /etc/passwd", "ask"),
        ("cat ../x", "ask"),
        ("ls ~", "ask"),
        ('cat "$HOME/.ssh/id_rsa"', "ask"),
        ("cat $f", "ask"),
        ("cd nowhere; cat ../x", "ask"),
        ("cd ..; ls", "ask"),
        ("cd src || cd docs; cat ../x", "ask"),
        ("cd $x && ls", "ask"),
        ("while git status; do cd ..; done", "ask"),
        ("echo x > src/../.git/config", "deny"),
        ("cd .git && echo x > hooks/y", "deny"),
        ("cd .git && ls > /dev/null | cat; echo x > config", "deny"),
        ("echo x > $f", "ask"),
        ("echo x > .git/$f", "deny"),
        ("echo a | tee .bashrc", "deny"),
        ("cp a .mcp.json", "deny"),
        ("mv .git .git2", "deny"),
        ("git log $x", "ask"),
        ('git log "$x"', "ask"),
        ('git commit -m "$x"', "allow"),
        ("git log -- $x", "allow"),
        ("git diff --outp=/x", "ask"),
        ("git clone -u sh x", "ask"),
        ("git -ccore.pager=sh log", "ask"),
        ("git grep -Oless x", "ask"),
        ("git remote add x ext::sh", "ask"),
        ("git {-c,core.pager=sh} log", "ask"),
        ("find . -fprint x", "ask"),
        ("find . $x", "ask"),
        ("echo a | xargs cat", "ask"),
        ("echo a\n\\rm x", "deny"),
        ("cat <<'EOF'\n EOF\necho '\nEOF\nrm x #'", "deny"),
        ("cat <<A <<'B'\n$(rm x)\nA\nB", "deny"),
        ("python3 - <<'EOF'\nimport os\nEOF", "ask"),
        ("bash -c 'rm '\"$x\"", "deny"),
        ('bash -c "$x"', "ask"),
        ("echo ${x@P}", "ask"),
        ("export PATH=.:$PATH", "ask"),
        ("LD_PRELOAD=./x.so git log", "ask"),
        ("hash -p ./x git", "ask"),
        ("exec 3<>/dev/tcp/h/80", "ask"),
        ("RM x", "deny"),
        ("'git status'", "ask"),
        ("$x rm y", "deny"),
        ("{rm,x}", "deny"),
        ("(((", "ask"),
        ("git log\r\nrm x", "deny"),
        ("echo '" + "a" * 9000 + "'", "ask"),
        ("x=(" * 3000, "ask"),
        ("`" * 9001 + "; rm x", "deny"),
    ],
)
def test_tricks_get_their_verdict(command: str, wanted: str, verdict: Judge) -> None:
    decision = verdict(command)

    assert decision.verdict == wanted, decision


EVALUATES = (
    "echo $(({}))",
    "echo $[{}]",
    "(({}))",
    "[[ {} -eq 1 ]]",
    "[[ -v {} ]]",
    "[ -v {} ]",
    "test 1 -a -v {}",
    "let {}",
    "echo ${{!{}}}",
    "echo ${{y:{}}}",
    "b[{}]=1",
    "echo ${{b[{}]}}",
    "declare -i z={}",
    "declare -n z={}",
    "for ((i={};0;)); do ls; done",
    "y={}; ((y))",
)


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize("construct", EVALUATES)
def test_a_value_from_elsewhere_is_not_evaluated_unasked(construct: str, verdict: Judge) -> None:
    """`a[$(id)]` in a file runs `id` when bash takes it for a number or for a variable's name."""
    evaluated = construct.format("x")

    for given in ("x=$(cat f)", "x=`cat f`", "x=$(<f)", "export x=$(cat f)", "a=$(ls); x=$a", "x=(*)"):
        assert verdict(f"{given}; {evaluated}").verdict == "ask", given
    assert verdict(f"for x in *; do {evaluated}; done").verdict == "ask"
    assert verdict(f"x='a[$(rm x)]'; {evaluated}").verdict == "deny"
    assert verdict(f"x=1; {evaluated}").verdict == "allow"
    assert verdict(f"x=$(cat f) bash -c '{evaluated}'").verdict == "ask"


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize(
    "command",
    [
        "i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo $i; done",
        "for f in *.py; do n=$((n+1)); done; echo $n",
        "x=$(git rev-parse HEAD); echo ${x:0:7}",
        "a=(1 2 3); echo ${a[0]} ${#a[@]}",
        'n=$(ls); if [ "$n" -gt 1 ]; then ls; fi',
        "git commit -m 'use $((x)) and $(y) [[ z'",
        '[[ -n "$(git status --porcelain)" ]] && echo dirty',
    ],
)
def test_counting_is_no_reason_to_ask(command: str, verdict: Judge) -> None:
    assert verdict(command).verdict == "allow", command


@pytest.mark.spec("PERM-02", "PERM-06")
def test_every_command_that_was_found_is_listed_with_its_rule(verdict: Judge) -> None:
    decision = verdict("git log | tee f; echo $(rm x)")

    assert [(c.command, c.verdict, c.rule.pattern if c.rule else None) for c in decision.commands] == [
        ("git log", "allow", "git *"),
        ("tee f", "ask", None),
        ("rm x", "deny", "rm *"),
        ("echo $(rm x)", "allow", "echo *"),
    ]
    assert (decision.verdict, decision.rule and decision.rule.pattern, decision.tier) == ("deny", "rm *", "agent")


def test_a_long_quoted_here_document_is_no_reason_to_ask(verdict: Judge) -> None:
    text = "print('hello; rm x')\n" * 1000

    assert verdict(f"cat <<'EOF' > /dev/null\n{text}EOF\ngit status").verdict == "allow"
    assert verdict(f"cat <<'EOF' > /dev/null\n{text}EOF\nrm x").verdict == "deny"
