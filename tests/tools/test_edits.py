import pytest

from retinue.tools.attempt import Failed
from retinue.tools.edits import Replacement, replaced
from retinue.tools.patch import applied, parse
from retinue.tools.text import Text

FILE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def failure(text: str, old: str, new: str = "x") -> str:
    with pytest.raises(Failed) as raised:
        replaced(text, (Replacement(old_string=old, new_string=new),), "a.py")
    return str(raised.value)


@pytest.mark.spec("TOOL-01")
def test_text_is_replaced_exactly_once_or_everywhere() -> None:
    once = Replacement(old_string="return 1", new_string="return 11")
    every = Replacement(old_string="return", new_string="yield", replace_all=True)

    assert replaced(FILE, (once,), "a.py") == FILE.replace("return 1", "return 11")
    assert replaced(FILE, (every,), "a.py") == FILE.replace("return", "yield")
    assert replaced("a\nb\n", (Replacement(old_string="a\r\nb", new_string="c\r\nd"),), "a") == "c\nd\n"


@pytest.mark.spec("TOOL-01")
def test_what_is_not_found_is_explained_by_the_nearest_lines() -> None:
    spaces = failure(FILE, "def two():\n  return 2")
    close = failure(FILE, "def two():\n    return 22")
    nothing = failure(FILE, "class Unrelated(Thing):\n    value: str = 'zzzz'")

    assert "Lines 5 to 6 differ from it only in white space:\n     5\tdef two():\n     6\t    return 2" in spaces
    assert "Nearest are lines 5 to 6 (- is yours, + is the file's):\n-     return 22\n+     return 2" in close
    assert "Nothing in the file is like it" in nothing


def test_what_is_found_often_tells_the_lines() -> None:
    assert "there 2 times (lines 2, 6)" in failure(FILE, "    return ")


def test_edits_that_say_nothing_are_refused() -> None:
    assert "old_string is empty" in failure(FILE, "")
    assert "nothing to change" in failure(FILE, "two", "two")


def patched(before: str, patch: str) -> str | None:
    return applied(parse(patch), {"a": Text(text=before)})["a"]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ("1\n2\n3\n", "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-2\n+two\n", "1\ntwo\n3\n"),
        ("x\nx\n1\n2\n", "--- a\n+++ a\n@@ -1,2 +1,2 @@ heading\n 1\n-2\n+two\n", "x\nx\n1\ntwo\n"),
        ("1\n2", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+one\n", "one\n2"),
        ("1", "--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n-1\n\\ No newline at end of file\n+1\n+2\n", "1\n2\n"),
        ("1\n", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n\\ No newline at end of file\n", "2"),
        ("a\nb\na\nb\n", "--- a/a\n+++ b/a\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n", "a\nb\na\nc\n"),
        ("1\n\n2\n", "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n\n-2\n+3\n", "1\n\n3\n"),
    ],
)
def test_a_unified_diff_is_applied(before: str, patch: str, after: str) -> None:
    assert patched(before, patch) == after


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("hello", "no unified diff"),
        ("--- a/a\n+++ b/a\n", "has no hunk"),
        ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-9\n+8\n", "hunk 1 does not fit; these lines are not there:\n9"),
        ("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+8\n", "a exists already"),
        ("--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", "leaves lines of it"),
    ],
)
def test_a_diff_that_does_not_fit_says_why(patch: str, told: str) -> None:
    with pytest.raises(Failed, match=told):
        patched("1\n2\n", patch)
