"""What a pattern covers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.policy.patterns import matches, overlap

TEXT = st.text(alphabet="ab/ .*?", max_size=8)


@pytest.mark.spec("PERM-01")
@pytest.mark.parametrize(
    ("pattern", "resource", "covered"),
    [
        ("git *", "git status", True),
        ("git *", "git", True),
        ("git *", "gitk", False),
        ("npm test", "npm test", True),
        ("npm test", "npm test -- x", False),
        ("src/*", "src/a/b.py", True),
        ("src/**", "src/a/b.py", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a.c", "abc", False),
        ("*", "", True),
        ("*.env*", "config/.env.local", True),
        ("echo *", "echo a\nb", True),
        ("~/x", "/home/u/x", True),
        ("$HOME/*", "/home/u/x", True),
        ("~user/x", "/home/user/x", False),
        ("a~", "a/home/u", False),
    ],
)
def test_a_pattern_covers(pattern: str, resource: str, covered: bool) -> None:
    assert matches(pattern, resource, home="/home/u") is covered


@given(TEXT, st.text(alphabet="abc/.*?", max_size=8), st.text(alphabet="abc/.", max_size=8))
def test_a_name_that_a_glob_expands_to_and_a_pattern_covers_is_an_overlap(pattern: str, glob: str, name: str) -> None:
    """Our own rule: overlap may say yes too often, never no wrongly; a final ` *` is read plainly here."""
    spelled = re.escape(glob).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    expands = re.fullmatch(re.sub(r"(^|/)(\[\^/\])", r"\1(?!\\.)\2", spelled), name)
    if expands and not pattern.endswith(" *") and matches(pattern, name):
        assert overlap(pattern, glob)


def test_what_has_no_name_in_common_does_not_overlap() -> None:
    assert not overlap("src/*.py", "docs/*")
    assert not overlap("**/.env*", "src/*.py")
    assert overlap("**/.env*", "./.e*")
    assert overlap("**/.env*", "./.en[uv]")
    assert overlap("*secret*", "conf/*")
