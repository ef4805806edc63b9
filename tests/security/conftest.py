"""The tables as data, and a judge under the rules that `data/commands.tsv` names in its first line."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.policy.calls import Authority, judge_call
from retinue.policy.files import Place
from retinue.policy.rules import Tier
from retinue.schema.permission import Decision, Rule, Verdict

Row = tuple[str, str, str]
DATA = Path(__file__).parent / "data"


def _decoded(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\(n|t|\\|u[0-9a-f]{4})", lambda m: escapes.get(m[1]) or chr(int(m[1][1:], 16)), text)


@pytest.fixture(scope="session")
def table() -> Callable[[str], list[Row]]:
    def rows(name: str) -> list[Row]:
        lines = [line for line in (DATA / name).read_text().splitlines() if not line.startswith("#")]
        found: list[Row] = []
        for line in lines[1:]:
            first, verdict, *why = line.split("\t")
            found.append((_decoded(first), verdict, why[0] if why else ""))
        return found

    return rows


@pytest.fixture(scope="session")
def authority() -> Callable[..., Authority]:
    def made(*rules: Rule, fallback: Verdict = "ask") -> Authority:
        return Authority(tiers=(Tier("agent", rules),), fallback=fallback, place=Place("/w", home="/home/u"))

    return made


@pytest.fixture(scope="session")
def verdict(authority: Callable[..., Authority]) -> Callable[[str], Decision]:
    """Judges a command under the table's rules."""
    allowed = ("git *", "npm test", "ls *", "cat *", "find *", "echo *")
    rules = [Rule(tool="bash", pattern=pattern, verdict="allow") for pattern in allowed]
    rules += [Rule(tool="bash", pattern=pattern, verdict="deny") for pattern in ("rm *", "curl *")]
    made = authority(*rules)
    return lambda command: judge_call(made, "bash", command)


Wrap = Callable[[str], str]


def _ticks(code: str) -> str:
    return code.replace("\\", "\\\\").replace("`", "\\`")


def _here(code: str) -> str:
    """A substitution inside an unquoted here-document sees the same text as outside."""
    return f"cat <<EOF\nbefore $({code})\nEOF"


CLEAR: dict[str, Wrap] = {
    "and": lambda c: f"git status && {c}",
    "or": lambda c: f"git status || {c}",
    "sequence": lambda c: f"git status; {c}",
    "before": lambda c: f"{c}\ngit status",
    "newline": lambda c: f"git status\n{c}",
    "background": lambda c: f"git status & {c}",
    "subshell": lambda c: f"({c})",
    "group": lambda c: f"{{ {c}\n}}",
    "not": lambda c: f"! ( {c}\n)",
    "if": lambda c: f"if git status; then\n{c}\nfi",
    "condition": lambda c: f"if {c}\nthen ls; fi",
    "else": lambda c: f"if git status; then ls; else {c}\nfi",
    "elif": lambda c: f"if ls; then ls; elif {c}\nthen ls; fi",
    "for": lambda c: f"for i in 1 2; do {c}\ndone",
    "c-for": lambda c: f"for ((i=0; i<1; i++)); do {c}\ndone",
    "while": lambda c: f"while git status; do {c}\nbreak; done",
    "until": lambda c: f"until {c}\ndo break; done",
    "case": lambda c: f"case a in b) ls;; a) {c}\n;; esac",
    "function": lambda c: f"f() {{ {c}\n}}; f",
    "function keyword": lambda c: f"function f {{ {c}\n}}\nf",
    "function subshell": lambda c: f"f() ( {c}\n); f",
    "substitution": lambda c: f"echo $({c}\n)",
    "quoted substitution": lambda c: f'echo "a $({c}\n) b"',
    "backticks": lambda c: f"echo `{_ticks(c)}`",
    "default": lambda c: f"echo ${{x:-$({c}\n)}}",
    "process": lambda c: f"cat <({c}\n)",
    "assignment": lambda c: f"x=$({c}\n)",
    "assignment prefix": lambda c: f"X=$({c}\n) git status",
    "export": lambda c: f"export x=$({c}\n)",
    "array": lambda c: f"x=(a $({c}\n))",
    "test": lambda c: f"[[ -n $({c}\n) ]]",
    "here-string": lambda c: f'cat <<< "$({c}\n)"',
    "here-document": _here,
    "after here-document": lambda c: f"cat <<'EOF'\nit's $(fine\nEOF\n{c}",
    "shell": lambda c: f"bash -c {shlex.quote(c)}",
    "login shell": lambda c: f"bash -lc {shlex.quote(c)}",
    "options": lambda c: f"bash -o pipefail -ec {shlex.quote(c)}",
    "sh": lambda c: f"/bin/sh -c {shlex.quote(c)}",
    "eval": lambda c: f"eval {shlex.quote(c)}",
    "trap": lambda c: f"trap {shlex.quote(c)} EXIT",
    "shell input": lambda c: f"bash <<'EOF'\n{c}\nEOF",
    "shell here-string": lambda c: f"bash <<< {shlex.quote(c)}",
    "timeout": lambda c: f"timeout 5 bash -c {shlex.quote(c)}",
    "env": lambda c: f"env A=b bash -c {shlex.quote(c)}",
    "nice": lambda c: f"nice -n 5 nohup bash -c {shlex.quote(c)}",
    "time": lambda c: f"time bash -c {shlex.quote(c)}",
    "command": lambda c: f"command bash -c {shlex.quote(c)}",
    "descriptor": lambda c: f"{{ {c}\n}} 2>&1",
    "quiet": lambda c: f"{{ {c}\n}} > /dev/null 2>&1",
    "comment": lambda c: f"{c} # it's a comment",
}
"""Constructs that can be seen through: neither milder nor stricter than what is inside."""

MURKY: dict[str, Wrap] = {
    "sudo": lambda c: f"sudo -u root bash -c {shlex.quote(c)}",
    "xargs": lambda c: f"ls | xargs -I{{}} sh -c {shlex.quote(c)}",
    "find": lambda c: f"find . -exec bash -c {shlex.quote(c)} ';'",
    "pipe to shell": lambda c: f"echo {shlex.quote(c)} | sh",
    "coproc": lambda c: f"coproc bash -c {shlex.quote(c)}",
    "arithmetic": lambda c: f"echo $((1 + $({c}\n)))",
    "expression": lambda c: f"((x = $({c}\n)))",
    "subscript": lambda c: f"echo ${{a[$({c}\n)]}}",
    "replacement": lambda c: f"echo ${{x/a/$({c}\n)}}",
    "dormant": lambda c: f"x={shlex.quote(f'a[$({c})]')}; echo $((x))",
    "watch": lambda c: f"watch -n 1 {shlex.quote(c)}",
    "ssh": lambda c: f"ssh host {shlex.quote(c)}",
    "docker": lambda c: f"docker run image sh -c {shlex.quote(c)}",
    "env -S": lambda c: f"env -S bash -c {shlex.quote(c)}",
    "write": lambda c: f"{{ {c}\n}} > out.txt",
    "select": lambda c: f"select x in a; do {c}\nbreak; done",
    "alias": lambda c: f"alias a={shlex.quote(c)}; a",
    "indirect": lambda c: f"bash -c '\"$@\"' _ bash -c {shlex.quote(c)}",
    "variable": lambda c: f"PAGER={shlex.quote(c)} git log",
    "git": lambda c: f"git submodule foreach {shlex.quote(c)}",
}
"""Constructs that are asked in themselves: never milder than what is inside."""


@pytest.fixture(scope="session")
def clear() -> dict[str, Wrap]:
    return CLEAR


@pytest.fixture(scope="session")
def murky() -> dict[str, Wrap]:
    return MURKY
