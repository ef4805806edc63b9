"""Secrets taken out of text."""

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.policy.redact import Redactor

SECRET = 'p@ss/w0rd+"x y"~é'
REDACTOR = Redactor({"KEY": SECRET})


@pytest.mark.spec("PERM-09")
@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        re.sub(r"%..", lambda m: m[0].lower(), quote(SECRET, safe="")),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
def test_a_secret_is_found_in_every_encoding(form: str) -> None:
    text = REDACTOR(f"before {form} after")

    assert form not in text
    assert "[secret KEY]" in text


@pytest.mark.spec("PERM-09")
@given(st.binary(max_size=5), st.binary(max_size=5), st.booleans())
def test_a_secret_is_found_in_base64_whatever_surrounds_it(before: bytes, after: bytes, urlsafe: bool) -> None:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode

    text = REDACTOR(encode(before + SECRET.encode() + after).decode())

    assert "[secret KEY]" in text


@pytest.mark.spec("PERM-09")
@given(st.sampled_from((64, 76)), st.binary(max_size=5))
def test_a_long_secret_is_found_in_base64_that_was_broken_into_lines(width: int, before: bytes) -> None:
    secret = "".join(f"{n:03}" for n in range(60))
    text = base64.b64encode(before + secret.encode()).decode()
    lines = "\n".join(text[i : i + width] for i in range(0, len(text), width))

    left = Redactor({"KEY": secret})(lines).replace("[secret KEY]", "").replace("\n", "")

    assert len(left) < len(text) * 0.4


@pytest.mark.spec("PERM-09")
@given(st.lists(st.sampled_from(("a", "p@", "ss/w0rd", SECRET[:5], SECRET[5:], SECRET, "\n")), max_size=8))
def test_pieces_give_the_same_as_the_whole(pieces: list[str]) -> None:
    feed, flush = REDACTOR.stream()

    assert "".join([*map(feed, pieces), flush()]) == REDACTOR("".join(pieces))


@pytest.mark.spec("PERM-09")
def test_a_piece_that_can_not_start_a_secret_is_not_held_back() -> None:
    feed, _ = REDACTOR.stream()

    assert [feed("hello"), feed(" world p@ss"), feed("ion")] == ["hello", " world ", "p@ssion"]


def test_nothing_changes_without_secrets_and_short_ones_are_left_alone() -> None:
    text = "a" * 1000

    assert Redactor({})(text) is text
    assert Redactor({"PIN": "aaa"})(text) == text
    assert (
        Redactor({"A": "first-secret", "B": "second-secret"})("second-secret, first-secret") == "[secret B], [secret A]"
    )
