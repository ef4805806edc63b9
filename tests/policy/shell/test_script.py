"""Scripts as lists of parts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.policy.shell.script import Doubt, Redirect, Scope, Simple, parse
from retinue.policy.shell.walk import walk
from retinue.policy.shell.words import Word, plain

PLAIN = st.from_regex(re.compile(r"[a-z./]{1,5}( +[a-z0-9./:@%+,-]{1,6}){0,4}", re.ASCII), fullmatch=True)


@given(PLAIN)
def test_the_short_way_for_plain_commands_finds_what_the_parser_finds(command: str) -> None:
    slow = walk(command)
    if any(isinstance(part, Doubt) for part in slow) or parse(command) == slow:
        return
    (fast,), (part,) = parse(command), slow
    assert isinstance(fast, Simple) and isinstance(part, Simple)
    assert [w.text for w in fast.words] == [w.text for w in part.words]


def test_parts_come_in_the_order_bash_meets_them() -> None:
    assert parse("cd a && ls > f; x=1 cat | (git)") == (
        Simple(words=(plain("cd"), plain("a"))),
        Scope("and", True),
        Simple(words=(plain("ls"),), redirects=(Redirect("write", plain("f")),)),
        Scope("and", False),
        Scope("sub", True),
        Simple(words=(plain("cat"),), assigns=(("x", plain("1")),)),
        Scope("sub", False),
        Scope("sub", True),
        Scope("sub", True),
        Simple(words=(plain("git"),), fed_by=(plain("cat"),)),
        Scope("sub", False),
        Scope("sub", False),
    )


def test_a_here_document_belongs_to_the_last_command_before_it() -> None:
    body = Word("a $b\n", lead="a $b\n", bare=False)

    assert parse("ls && cat <<'E'\na $b\nE")[2] == Simple(words=(plain("cat"),), redirects=(Redirect("text", body),))


def test_variables_with_plain_values_are_filled_in() -> None:
    simple = [p for p in parse('for f in a b; do cat "$f"; done') if isinstance(p, Simple)]

    assert [[w.text for w in p.words] for p in simple] == [["cat", "a"], ["cat", "b"]]
    assert not any(p.words[1].known for p in parse("read f; cat $f") if isinstance(p, Simple) and len(p.words) > 2)


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize(
    "source",
    [
        "git log\u00a0x",
        "git\u202e",
        "a\x00b",
        "a\rb",
        "if",
        "echo 'a",
        "((",
        "echo a)",
        "ls <> f",
        "r\\\nm x",
        "cat <<'E'F\nx\nEF",
        "x=(" * 100,
        "echo $(" * 70,
    ],
)
def test_what_is_not_understood_is_a_doubt(source: str) -> None:
    assert any(isinstance(part, Doubt) for part in parse(source))


@pytest.mark.parametrize("unit", ["x=(", "))", "<<E\n", "|", "[[ a ", "if ", "${x", "`", "f() ", "a) ;; "])
def test_hostile_text_is_refused_or_parsed_in_time(unit: str) -> None:
    """The parser's recovery is quadratic: what is longer than a bound is not given to it."""
    assert parse((unit * 200_000)[:200_000])
