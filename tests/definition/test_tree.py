import pytest

from retinue.definition.node import plain
from retinue.definition.tree import Broken, Refused, read_yaml


def read(text: str) -> object:
    node = read_yaml(text, 1, lambda key: key == "description")
    return None if node is None else plain(node)


def test_only_the_core_types_of_yaml_1_2_are_known() -> None:
    text = "a: 1\nb: 1.5\nc: true\nd: ~\ne: yes\nf: 2024-01-02\ng: 1:30\nh: '1'\ni: 0x1F\nj: 1e5\nk: 007\nl: .5"

    assert read(text) == {
        **{"a": 1, "b": 1.5, "c": True, "d": None, "e": "yes", "f": "2024-01-02", "g": "1:30", "h": "1"},
        **{"i": "0x1F", "j": "1e5", "k": "007", "l": ".5"},
    }


@pytest.mark.spec("DEF-09")
@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3", "duplicate-key", 3, 1),
        ("a:\n  b: 1\n  b: 2", "duplicate-key", 3, 3),
        ("a: [{b: 1, b: 2}]", "duplicate-key", 1, 12),
        ("a: &x 1\nb: *x", "yaml-alias", 1, 4),
        ("a: {b: &x [1]}", "yaml-alias", 1, 8),
        ("x: " + "[" * 21, "too-deep", 1, 23),
    ],
)
def test_what_passes_a_limit_is_refused_at_its_place(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(Refused) as refused:
        read(text)

    assert (refused.value.code, refused.value.line, refused.value.column) == (code, line, column)


def test_twenty_levels_are_read() -> None:
    assert read("a: " + "[" * 19 + "]" * 19) is not None


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "a: !!python/object:os.system x", "? [a]\n: b", "a: 1\n--- b", "\ta: 1"]
)
def test_what_is_not_yaml_as_we_read_it_is_broken_but_not_refused(text: str) -> None:
    with pytest.raises(Broken) as broken:
        read(text)

    assert not isinstance(broken.value, Refused)


def test_an_alias_where_a_text_belongs_is_only_broken() -> None:
    with pytest.raises(Broken) as broken:
        read("description: *bold* words")

    assert not isinstance(broken.value, Refused)
