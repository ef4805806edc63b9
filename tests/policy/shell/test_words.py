"""Words as bash reads them."""

import subprocess

import pytest

from retinue.policy.shell.script import Simple, parse
from retinue.policy.shell.words import Word

WRITTEN = (
    r"a\ b",
    r"'a b'",
    r'"a\"b\\c\$d\e"',
    r"""'it'\''s'""",
    r"$'a\tb\x41\101\u00e9\'\\\cA'",
    r'$"text"',
    r"a'b'\"c\"d",
    r'""',
    r"x=y",
    "'a\nb'",
    '"a\\\nb"',
    r"--opt='v w'",
    r"\~/x",
    r"'*'\?",
)


def words(command: str) -> tuple[Word, ...]:
    return next(part.words for part in parse(command) if isinstance(part, Simple))


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize("written", WRITTEN)
def test_a_quoted_word_is_decoded_as_bash_decodes_it(written: str) -> None:
    wanted = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {written}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    ).stdout.split(b"\0")[0]

    word = words(f"echo {written}")[1]

    assert (word.text.encode(), word.known, word.glob, word.tilde) == (wanted, True, False, False)


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("$x", Word("$x", known=False, splits=True, bare=False)),
        ('"$x"', Word("$x", known=False, bare=False)),
        ('"src/$x"', Word("src/$x", known=False, lead="src/", bare=False)),
        ("--o=$x", Word("--o=$x", known=False, lead="--o=", splits=True, bare=False)),
        ("*.py", Word("*.py", lead="*.py", glob=True)),
        ("~/x", Word("~/x", lead="~/x", tilde=True)),
        ('"$HOME/x"', Word("~/x", lead="~/x", bare=False, tilde=True)),
        ("{a,b}", Word("{a,b}", known=False, splits=True, bare=False)),
        ("<(ls)", None),
    ],
)
def test_what_is_not_certain_is_marked(written: str, word: Word | None) -> None:
    found = next(p.words[1] for p in parse(f"echo {written}") if isinstance(p, Simple) and p.words[0].text == "echo")

    assert found == (word or Word("/dev/fd/63", lead="/dev/fd/63", bare=False))
