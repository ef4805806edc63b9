"""The splitter gives the same events however the network cuts the bytes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.models.sse import LARGEST_EVENT, Splitter
from retinue.schema.errors import ModelError

STREAM = (
    b"\xef\xbb\xbf: keep-alive\n\n"
    b'data: {"text":"na\xc3\xafve \xf0\x9f\x90\x9d"}\n\n'
    b"event: ping\r\ndata: {}\r\n\r\n"
    b"id: 7\nretry: 10\nevent: two\ndata: first\ndata:second\n\n"
    b": OPENROUTER PROCESSING\n\n"
    b"data\n\n\n\n"
    b"data: [DONE]\n\n"
)
EVENTS = [
    '{"text":"naïve 🐝"}'.encode(),
    b"{}",
    b"first\nsecond",
    b"",
    b"[DONE]",
]


def split(*reads: bytes) -> list[bytes]:
    splitter = Splitter()
    return [event for read in reads for event in splitter.feed(read)] + list(splitter.finish())


def test_comments_names_and_several_data_lines_are_understood() -> None:
    assert split(STREAM) == EVENTS


def test_cutting_the_stream_in_two_anywhere_changes_nothing() -> None:
    for at in range(len(STREAM) + 1):
        assert split(STREAM[:at], STREAM[at:]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_cuts_and_any_line_ends_give_the_same_events(cuts: list[int], end: bytes) -> None:
    stream = STREAM.replace(b"\r\n", b"\n").replace(b"\n", end)
    at = [0, *sorted(cuts), len(stream)]

    assert split(*(stream[a:b] for a, b in itertools.pairwise(at))) == EVENTS


def test_a_stream_read_byte_by_byte_is_split_the_same() -> None:
    assert split(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == EVENTS


def test_the_last_event_needs_no_blank_line() -> None:
    assert split(b"data: a\n\ndata: b") == [b"a", b"b"]


def test_an_event_without_end_is_refused() -> None:
    splitter = Splitter()
    megabyte = b"x" * 1024 * 1024

    with pytest.raises(ModelError, match="larger than"):
        for _ in range(LARGEST_EVENT // len(megabyte) + 1):
            splitter.feed(megabyte)
