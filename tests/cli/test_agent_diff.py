import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]

ONE = "---\ndescription: One.\n---\nx\n"
TWO = ONE.replace("One", "Two")


def test_an_agent_of_a_repository_is_compared_between_commits(run: Run, repository: Callable[..., Path]) -> None:
    where = repository({"a.md": ONE})
    run("repos", "add", str(where), "--name", "x", "--root")
    run("repos", "sync")
    repository({"a.md": TWO})
    run("repos", "sync")

    ran = run("agents", "diff", "a", "HEAD~1", "HEAD")
    with_now = json.loads(run("agents", "diff", "a", "HEAD~1", "--json").stdout)
    raw = run("agents", "show", "a", "--raw")

    assert ran.stdout.splitlines() == [
        "--- HEAD~1:a",
        "+++ HEAD:a",
        "@@ -1,4 +1,4 @@",
        " ---",
        "-description: One.",
        "+description: Two.",
        " ---",
        " x",
    ]
    assert with_now["changed"] is True
    assert raw.stdout == TWO


def test_a_file_of_a_working_copy_is_compared_with_a_commit(
    run: Run, repository: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = repository({"agents/a.md": ONE})
    monkeypatch.chdir(where)
    (where / "agents" / "a.md").write_text(TWO)

    changed = run("agents", "diff", "a", "HEAD")
    same = run("agents", "diff", "a", "HEAD", "main")

    assert "+description: Two." in changed.stdout
    assert (same.returncode, same.stdout) == (0, "")


@pytest.mark.parametrize("revision", ["--output=x", "HEAD:../secret", "nonsense"])
def test_what_is_no_revision_is_refused(
    revision: str, run: Run, repository: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository({"agents/a.md": ONE}))

    ran = run("agents", "diff", "a", "--", revision)

    assert ran.returncode in (1, 2)
    assert ran.stdout == ""


def test_a_built_in_has_no_revisions(run: Run) -> None:
    ran = run("agents", "diff", "coder", "HEAD")

    assert ran.returncode == 2
    assert "has no revisions" in ran.stderr
