from time import process_time

import pytest

from retinue.definition.frontmatter import MAX_FRONTMATTER, Parts, split
from retinue.definition.load import load_text
from retinue.definition.tree import Refused


def parts(data: bytes) -> Parts:
    found = split(data)
    assert found is not None
    return found


@pytest.mark.spec("DEF-01")
def test_a_file_is_frontmatter_and_body_with_their_lines() -> None:
    found = parts(b"---\nname: x\ntags: [a]\n---\n\nBody\n---\nmore\n")

    assert (found.block, found.block_line) == ("name: x\ntags: [a]\n", 2)
    assert (found.body, found.body_line) == ("\nBody\n---\nmore\n", 5)


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "data", [b"---\r\nname: x\r\n---\r\nHi\r\n", b"\xef\xbb\xbf---\nname: x\n---\nHi\n", b"--- \nname: x\n---\t\nHi"]
)
def test_line_ends_a_bom_and_blanks_after_a_fence_do_not_matter(data: bytes) -> None:
    loaded = load_text(data, file="x.md")

    assert loaded.definition is not None
    assert (loaded.definition.name, loaded.definition.prompt) == ("x", "Hi")
    assert [p.code for p in loaded.problems] == ["missing-description"]


@pytest.mark.spec("DEF-05")
@pytest.mark.parametrize(
    "data", [b"", b"# Title\n", b"name: x\n---\n", b"    ---\n    name: x\n    ---\n", b"----\nname: x\n----\n"]
)
def test_a_file_without_frontmatter_is_skipped(data: bytes) -> None:
    loaded = load_text(data, file="x.md")

    assert loaded.skipped
    assert loaded.definition is None
    assert loaded.problems == ()


def test_blank_lines_before_the_frontmatter_are_warned_of() -> None:
    loaded = load_text("\n\n---\nname: x\ndescription: d\n---\nHi", file="x.md")

    assert loaded.definition is not None
    assert [(p.code, p.line) for p in loaded.problems] == [("late-frontmatter", 3)]


@pytest.mark.spec("DEF-09")
@pytest.mark.parametrize(
    ("data", "code", "line", "column"),
    [
        (b"---\nname: x\n", "unclosed-frontmatter", 1, 1),
        (b"---\nname: x\ndescription: \xff\n---\n", "not-utf8", 3, 14),
        (b"---\nname: x\n---\nbody \xe9", "not-utf8", 4, 6),
        (b"\xff\xfe-\x00", "not-utf8", 1, 1),
        (b"---\nname: x\nemoji: \x01f4\n---\n", "control-character", 3, 8),
        ("---\nname: x\u2028tools: '*'\n---\n".encode(), "control-character", 2, 8),
        (b"---\nname: x\rtools: '*'\n---\n", "control-character", 2, 8),
        ("---\nname: \u202egpj\n---\n".encode(), "control-character", 2, 7),
        (b"---\n" + b"a: b\n" * 20_000 + b"---\n", "frontmatter-too-large", 2, 1),
        (b"---\nname: x\n---\n" + b"x" * 2_000_000, "file-too-large", 1, 1),
    ],
)
def test_files_past_a_limit_are_refused_where_they_pass_it(data: bytes, code: str, line: int, column: int) -> None:
    with pytest.raises(Refused) as refused:
        split(data)

    assert (refused.value.code, refused.value.line, refused.value.column) == (code, line, column)


@pytest.mark.spec("DEF-09")
def test_64_kib_of_frontmatter_is_read_and_one_byte_more_is_not() -> None:
    line = b"x-a: " + b"b" * (MAX_FRONTMATTER - 6) + b"\n"
    assert len(line) == MAX_FRONTMATTER

    assert parts(b"---\n" + line + b"---\n").block.startswith("x-a")
    with pytest.raises(Refused):
        split(b"---\nc" + line + b"---\n")


BOMB = b"".join(b"%c: &%c [*%c,*%c]\n" % (i + 1, i + 1, i, i) for i in range(97, 120))
HOSTILE = {
    "10 MB without an end": b"---\n" + b"description: x\n" * 700_000,
    "10 MB of body": b"---\nname: x\n---\n" + b"A" * 10_000_000,
    "10 MB of one line": b"---\nname: " + b"A" * 10_000_000,
    "10 MB of blank lines": b"\n" * 10_000_000 + b"---\n",
    "a bomb of aliases": b"---\na: &a [x,x]\n" + BOMB + b"---\nHi",
    "5,000 brackets": b"---\ndescription: " + b"[" * 5_000 + b"\n---\nHi",
    "5,000 braces": b"---\nx: " + b"{a: " * 5_000 + b"\n---\nHi",
    "5,000 levels of indentation": b"---\n" + b"".join(b" " * i + b"a:\n" for i in range(350)) + b"---\nHi",
    "7,000 unknown keys": b"---\n" + b"".join(b"k%d: v\n" % i for i in range(7_000)) + b"---\nHi",
    "3,000 texts that go on": b"---\n" + b"".join(b"k%d: a\n b\n" % i for i in range(3_000)) + b"---\nHi",
    "30,000 tools": b"---\ntools: " + b"x," * 30_000 + b"\n---\nHi",
    "60,000 digits": b"---\ntimeout: " + b"9" * 60_000 + b"\n---\nHi",
    "7,000 broken keys": b"---\n" + b"".join(b"k%d: [\n" % i for i in range(7_000)) + b"---\nHi",
}


@pytest.mark.spec("DEF-09")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_at_once(name: str) -> None:
    times: list[float] = []
    for _ in range(3):
        start = process_time()
        assert load_text(HOSTILE[name], file="x.md").definition is None
        times.append(process_time() - start)

    assert min(times) < 0.05


@pytest.mark.spec("DEF-09")
def test_a_broken_text_of_many_words_before_colons_is_read_once() -> None:
    lines = b"".join(b"word%d: a: b %s\n" % (i, b"and more " * 35) for i in range(190))
    start = process_time()

    loaded = load_text(b"---\ndescription: a: b\n" + lines + b"---\nHi", file="x.md")

    assert process_time() - start < 0.2
    assert loaded.definition is not None and len(loaded.definition.description) > 60_000
