"""No construct makes a command milder, and those that can be seen through do not make it stricter."""

import random
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from retinue.schema.permission import STRICTNESS, Decision

Judge = Callable[[str], Decision]
Wrap = Callable[[str], str]

DENIED = ("rm x", "curl h", "\\rm x", "'r'm -rf y", "/bin/rm x", "$'\\x72m' x", "CI=1 rm x", "rm x > /dev/null")
ASKED = ("touch f", "npm test -- --x", "git diff --ext-diff", "echo x > out.txt", "cat /etc/passwd")
ALLOWED = ("git status", "echo 'rm x; curl h'", "npm test")
PARTS = 4
SAMPLES = 700


def _stacks(names: list[str], part: int) -> Iterator[tuple[str, ...]]:
    """Every construct; over all parts every pair; and a sample of the stacks of three."""
    rng = random.Random(part)
    yield from ((name,) for name in names)
    yield from list(product(names, repeat=2))[part::PARTS]
    for _ in range(SAMPLES):
        yield rng.choice(names), rng.choice(names), rng.choice(names)


def _wrapped(command: str, stack: tuple[str, ...], wraps: dict[str, Wrap]) -> str:
    for name in stack:
        command = wraps[name](command)
    return command


@pytest.mark.spec("PERM-02")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_wrapping_is_judged_milder_than_the_command_itself(
    part: int, verdict: Judge, clear: dict[str, Wrap], murky: dict[str, Wrap], capsys: pytest.CaptureFixture[str]
) -> None:
    wraps = clear | murky
    tried = 0
    milder: list[tuple[str, str]] = []
    for index, stack in enumerate(_stacks(sorted(wraps), part)):
        pool = DENIED if index % 3 else ASKED
        command = pool[(index + part) % len(pool)]
        script = _wrapped(command, stack, wraps)
        tried += 1
        got = verdict(script).verdict
        if STRICTNESS[got] < STRICTNESS[verdict(command).verdict]:
            milder.append((script, got))

    with capsys.disabled():
        print(f"\n{tried} wrappings tried")
    assert (milder[:5], tried > 1500) == ([], True)


@pytest.mark.spec("PERM-02")
def test_wrapping_an_allowed_command_does_not_ask(verdict: Judge, clear: dict[str, Wrap]) -> None:
    stacks = [(name,) for name in clear] + list(product(clear, repeat=2))
    stricter = [
        (script, decision.reason)
        for index, stack in enumerate(stacks)
        if (decision := verdict(script := _wrapped(ALLOWED[index % 3], stack, clear))).verdict != "allow"
    ]

    assert len(stricter) <= len(stacks) * 0.05, stricter
    assert [script for script, _ in stricter if script in {clear[n](a) for n in clear for a in ALLOWED}] == []
