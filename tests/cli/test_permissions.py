import io
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest

Run = Callable[..., CompletedProcess[str]]

AGENT = """---
description: Cleans.
permissions:
  bash:
    "*": deny
    "ls *": allow
---
You clean.
"""


@pytest.mark.spec("PERM-06")
def test_an_explanation_names_the_rule_and_each_command(run: Run) -> None:
    ran = run("permissions", "explain", "coder", "bash", "git status && rm -rf x")

    assert ran.stdout.splitlines()[0] == "ask: hard to undo"
    assert "  rule: ask bash rm * (built in)" in ran.stdout
    assert "allow  git status" in ran.stdout
    explained = msgspec.json.decode(run("permissions", "explain", "coder", "bash", "git status", "--json").stdout)
    assert (explained["verdict"], [c["command"] for c in explained["commands"]]) == ("allow", ["git status"])


@pytest.mark.spec("PERM-06")
def test_an_agent_may_be_a_file_and_arguments_come_as_json_lines(
    run: Run, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("drafts/cleaner.md", AGENT)
    monkeypatch.setattr("sys.stdin", io.StringIO('"ls -l"\n\n"rm x"\n'))

    ran = run("permissions", "explain", str(file), "bash", "-")

    first, second = (msgspec.json.decode(line) for line in ran.stdout.splitlines())
    assert (first["verdict"], first["rule"]) == ("allow", "allow bash ls *")
    assert (second["verdict"], second["rule"]) == ("deny", "deny bash *")
    assert first["commands"][0]["command"] == "ls -l"
    assert f"{file}:5" in second["origin"]


@pytest.mark.spec("PERM-06", "PERM-03")
def test_files_are_judged_by_where_they_lead_and_a_tool_that_is_not_offered_is_denied(run: Run, project: Path) -> None:
    (project / "link").symlink_to("/etc/passwd")

    assert run("permissions", "explain", "coder", "read", "README.md").stdout.startswith("allow")
    assert "outside the workspace" in run("permissions", "explain", "coder", "read", "link").stdout
    assert run("permissions", "explain", "coder", "write", "src/x.py").stdout.startswith("allow")
    assert run("permissions", "explain", "explore", "bash", "ls").stdout.startswith("deny")


@pytest.mark.spec("PERM-06", "PERM-03")
def test_commands_are_explained_by_where_their_files_lead(run: Run, project: Path) -> None:
    (project / "link").symlink_to("/etc/passwd")

    for command in ("cat link", "cat l*"):
        assert "outside the workspace" in run("permissions", "explain", "coder", "bash", command).stdout


def test_a_line_that_is_no_json_string_is_refused_with_its_number(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('"ls"\nls\n'))

    ran = run("permissions", "explain", "coder", "bash", "-")

    assert ran.returncode == 2
    assert "line 2" in ran.stderr


def test_nothing_is_suggested_when_nothing_was_approved(run: Run) -> None:
    ran = run("permissions", "suggest")

    assert (ran.returncode, ran.stdout) == (0, "")
    assert "nothing was approved" in ran.stderr
