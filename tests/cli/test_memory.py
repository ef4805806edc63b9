from collections.abc import Callable
from subprocess import CompletedProcess

import msgspec
import pytest

Run = Callable[..., CompletedProcess[str]]


@pytest.mark.spec("MEM-01", "API-02")
def test_what_agents_remember_is_set_listed_read_and_deleted(run: Run) -> None:
    assert run("memory", "set", "coder", "style", '{"tabs": false}').returncode == 0
    assert run("memory", "set", "coder", "name", "Ada", "--expires", "7d").returncode == 0

    assert run("memory", "get", "coder", "style").stdout == '{"tabs":false}\n'
    assert run("memory", "get", "coder", "name").stdout == "Ada\n"
    listed = msgspec.json.decode(run("memory", "list", "--json").stdout, type=list[dict[str, object]])
    assert [(item["key"], item["value"]) for item in listed] == [("name", "Ada"), ("style", {"tabs": False})]
    assert "Ada" in run("memory", "list", "coder").stdout
    assert "Ada" not in run("memory", "list", "planner").stdout

    assert run("memory", "delete", "coder", "style").returncode == 0
    assert run("memory", "delete", "coder", "style").returncode == 1
    assert "remembers no 'style'" in run("memory", "get", "coder", "style").stderr


def test_what_is_no_duration_is_refused(run: Run) -> None:
    assert run("memory", "set", "coder", "k", "v", "--expires", "soon").returncode == 2
