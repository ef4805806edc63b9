from hypothesis import given
from hypothesis import strategies as st

from retinue.tools.text import decode, encode, lines_from, lines_of


@given(st.text(alphabet="a\n", max_size=30), st.integers(1, 35), st.integers(1, 35))
def test_lines_from_a_place_are_the_lines_at_that_place(text: str, first: int, count: int) -> None:
    assert lines_from(text, first, count) == lines_of(text)[first - 1 : first - 1 + count]


def test_lines_are_found_far_into_a_long_text() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 50_001))

    assert lines_from(text, 43_210, 2) == ["line 43210", "line 43211"]
    assert lines_from(text, 50_001, 2) == []


@given(st.text(alphabet="aé\n\r", max_size=20), st.sampled_from(["utf-8", "utf-16", "utf-8-sig", "latin-1"]))
def test_what_is_decoded_is_encoded_to_the_same_bytes(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    decoded = decode(data)

    assert decoded is not None
    assert encode(decoded.text, decoded) == data
