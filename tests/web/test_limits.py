"""Token buckets and pages."""

import pytest

from retinue.schema.errors import UsageError
from retinue.web.limits import Buckets
from retinue.web.pages import cursor, page, position, slice_of


@pytest.mark.spec("API-03")
def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    buckets = Buckets(rate=2.0, burst=3)

    assert [buckets.take("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b", 0.0) == 0.0
    assert [buckets.take("a", 0.5), buckets.take("a", 0.5)] == [0.0, 0.5]
    assert [buckets.take("a", 100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_many_names_do_not_fill_the_memory() -> None:
    buckets = Buckets(rate=1.0, burst=1)
    for number in range(25_000):
        buckets.take(f"from {number}", number / 1000)

    assert len(buckets._buckets) <= 10_000  # pyright: ignore[reportPrivateUsage] # what it keeps is the point


@pytest.mark.spec("API-03")
def test_pages_follow_each_other_until_there_is_no_more() -> None:
    numbers = list(range(7))
    first = slice_of(numbers, None, 3)
    second = slice_of(numbers, first.next, 3)
    third = slice_of(numbers, second.next, 3)

    assert [first.items, second.items, third.items, third.next] == [[0, 1, 2], [3, 4, 5], [6], None]
    assert page([5, 4, 3], 2, lambda n: n).next == cursor(4)
    assert page([5, 4], 2, lambda n: n).next is None


@pytest.mark.parametrize("wrong", ["", "x", "!!!", cursor(-1), cursor("text"), cursor([1]), "é"])
def test_a_cursor_that_is_none_of_ours_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="none of ours"):
        slice_of([1, 2], wrong, 1)
    assert position(None, int) is None
