"""The rows of the files table that are decisions; the others, about how a tool acts, are tested with the tools."""

from collections.abc import Callable

import pytest

from retinue.policy.files import Place, judge_file, lexical
from retinue.policy.rules import Tier, call_digest
from retinue.ports.tool import Target
from retinue.schema.permission import Rule

PLACE = Place("/W")
DENIED = Tier("user", (Rule(tool="read", pattern="**/.env*", verdict="deny"),))

DECIDED: dict[str, tuple[Target, ...]] = {
    "read W/a.txt": (lexical("read", "/W/a.txt"),),
    "read W/../x": (lexical("read", "/W/../x"), lexical("read", "/W/./b/../../x")),
    "read W2/x (a folder whose name starts like W)": (lexical("read", "/W2/x"),),
    "read W/link -> /etc/passwd": (Target(op="read", asked="/W/link", path="/etc/passwd"),),
    "read W/link -> W/a.txt": (Target(op="read", asked="/W/link", path="/W/a.txt"),),
    "write W/dirlink/new -> outside": (Target(op="write", asked="/W/dirlink/new", path="/out/new", kind="absent"),),
    'read W/.env when read "**/.env*" is denied': (lexical("read", "/W/.env"), lexical("read", "/W/b/.env.x")),
    "read W/alias (symlink or hard link to W/.env), same rule": (
        Target(op="read", asked="/W/alias", path="/W/.env"),
        Target(op="read", asked="/W/alias", path="/W/alias", names=("/W/.env",)),
    ),
    "write W/.git/hooks/pre-commit": (lexical("write", "/W/.git/hooks/pre-commit"),),
    "write W/.git/config": (lexical("write", "/W/.git/config"),),
    "write W/.retinue/agents/x.md by an agent": (lexical("write", "/W/.retinue/agents/x.md"),),
    "create W/.retinue/permissions.toml where none exists": (
        Target(op="write", asked="/W/.retinue/p.toml", path="/W/.retinue/p.toml", kind="absent"),
    ),
    "rename W/.git to W/.git2": (lexical("rename", "/W/.git"),),
    "write W/.bashrc": (lexical("write", "/W/.bashrc"),),
    "read /proc/self/environ": (lexical("read", "/proc/self/environ"), lexical("read", "/proc/7/environ")),
    "read a FIFO or a device": (Target(op="read", asked="/W/f", path="/W/f", kind="other"),),
    "read a name with NUL or control characters": (lexical("read", "/W/a\0"), lexical("read", "/W/a\x07")),
}
ELSEWHERE = {
    'read "~/x" from a file tool',
    "grep or glob over a folder that holds a denied file",
    "write whose content changed after approval",
    "folder swapped for a link between check and use",
}


@pytest.mark.spec("PERM-03")
def test_every_row_that_is_a_decision_gets_its_verdict(table: Callable[[str], list[tuple[str, str, str]]]) -> None:
    rows = {operation: verdict for operation, verdict, _ in table("files.tsv")}

    assert set(rows) == set(DECIDED) | ELSEWHERE
    for operation, targets in DECIDED.items():
        for target in targets:
            decision = judge_file(target, PLACE, tiers=(DENIED,), fallback="allow")
            assert decision.verdict == rows[operation], (operation, decision)


@pytest.mark.spec("PERM-03", "PERM-05")
def test_what_the_tools_build_the_other_rows_on() -> None:
    found = [
        judge_file(lexical("read", path), PLACE, tiers=(DENIED,), fallback="allow") for path in ("/W/.env", "/W/a")
    ]

    assert [decision.verdict for decision in found] == ["deny", "allow"]
    assert call_digest("write", '{"content":"a"}', "h") != call_digest("write", '{"content":"b"}', "h")
