"""The one promise: what is read here is what the YAML parser reads, places included."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.definition.frontmatter import split
from retinue.definition.lines import read_lines
from retinue.definition.node import Fields
from retinue.definition.tree import Broken, read_yaml

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "agents"
PARTS = [
    *("a", "key", "tools", "1", "1.5", "-1", "~", "null", "true", "é", "\u00a0", "\ufffe", "0x1", "<<", "---", "..."),
    *(": ", ":", " ", "  ", "\n", "\n- ", "\n  - ", "\n  ", "- ", "-", '"', "'", "[", "]", "{", "}", ",", ", ", "#"),
    *(" #", "&", "*", "!", "|", ">", "%", "@", "`", "?", "? ", "\t", "\\", "/", "(", ")", "=", "+", "."),
]
LINES = [
    *("a: 1", 'b: "x, y"', "c: [a, b]", "d: []", "e: [ a, 'b' , \"c, d\"]", "f:", "  - x", "  - 'y'", "- z", " - w"),
    *(
        "  g: h",
        "  i: true",
        "  j:",
        "   - k",
        "# l",
        "",
        "m: n o",
        "p: ''",
        "q: r:s",
        "t: u#v",
        "w:  x  ",
        "y: [a - b]",
    ),
]


def agrees(block: str) -> Fields | None:
    root = read_lines(block, 2)
    if root is not None:
        assert root == read_yaml(block, 2, lambda _: False)
    return root


@pytest.mark.spec("DEF-07", "DEF-08")
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_any_text_is_read_as_yaml_reads_it_or_left_to_it(block: str) -> None:
    agrees(block)


@pytest.mark.spec("DEF-07", "DEF-08")
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=6).map("\n".join), st.integers(0, 90), st.sampled_from(["", *PARTS]))
def test_plain_lines_with_anything_put_between_are_read_as_yaml_reads_them(block: str, at: int, more: str) -> None:
    agrees(block[:at] + more + block[at:])


def test_plain_lines_are_read_here() -> None:
    block = 'a: 1\n# note\nb: "x"\n\nc: [y, \'z\']\nd:\n  - e f\n  - "g"\nh:\n  i: true\nj:\nk:\n- l\n'

    root = agrees(block)

    assert root is not None
    assert list(root.fields) == ["a", "b", "c", "d", "h", "j", "k"]


@pytest.mark.parametrize(
    "block",
    [
        *("a: &x 1", "a: *x", "a: !t 1", "a: b: c", "a: b # c", "a: 'b' c", "a: |\n  b", "a: b\n  c", "a: {b: c}"),
        *("a: [b: c]", "a: [[b]]", "a: [b,]", "a: 1\na: 2", "a:\n  b: 1\n  b: 2", "a:\n  - b\n c: d", "- a", "", "# a"),
        *('a: "b\\n"', "a: 'b''c'", "a:\tb", '"a": b', "a: [b, c", "? a", "a:\n  - b: c", "a: ,".ljust(600, ",")),
    ],
)
def test_everything_else_is_left_to_yaml(block: str) -> None:
    assert agrees(block) is None


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the repository")
def test_four_of_five_real_files_are_plain_lines_and_all_agree() -> None:
    read = [agrees(block) is not None for block in _blocks()]

    assert sum(read) > 0.8 * len(read)


def _blocks() -> Iterator[str]:
    for path in sorted(CORPUS.rglob("*.md")):
        try:
            parts = split(path.read_bytes())
        except Broken:
            continue
        if parts is not None:
            yield parts.block
