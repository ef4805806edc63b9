"""Names of tools: as they are where that is possible, with a hash where it is not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.remotes.mcp.naming import tool_names

TEXT = st.text(min_size=1, max_size=80)


@pytest.mark.spec("TOOL-06")
def test_a_tool_is_called_mcp_server_tool() -> None:
    assert tool_names([("git", "git_log")]) == {("git", "git_log"): "mcp_git_git_log"}


@given(st.lists(st.tuples(TEXT, TEXT), max_size=20))
def test_names_are_distinct_and_fit_every_provider(pairs: list[tuple[str, str]]) -> None:
    named = tool_names(pairs)

    assert set(named) == set(pairs)
    assert len(set(named.values())) == len(named)
    assert all(re.fullmatch(r"mcp_[A-Za-z0-9_-]{1,60}", name) for name in named.values())


@pytest.mark.spec("TOOL-06")
def test_a_tool_can_not_take_the_name_of_one_that_is_spelled_so() -> None:
    """Else a server could move `write_file` out of the reach of a rule that denies it."""
    named = tool_names([("fs", "write.file"), ("fs", "write_file"), ("fs", "write file")])

    assert named["fs", "write_file"] == "mcp_fs_write_file"
    assert all(re.fullmatch(r"mcp_fs_write_file(_[0-9a-f]{8})?", name) for name in named.values())


@pytest.mark.spec("TOOL-06")
def test_names_that_clash_between_servers_or_with_other_tools_get_a_hash() -> None:
    named = tool_names([("a", "b_c"), ("a_b", "c")], taken=["mcp_x"])
    assert sorted(map(len, named.values())) == [9, 18]

    assert tool_names([("a", "b")], taken=["mcp_a_b"])["a", "b"].startswith("mcp_a_b_")
