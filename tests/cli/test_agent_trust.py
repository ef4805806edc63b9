import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
Write = Callable[..., Path]


def _trusted(run: Run) -> dict[str, bool]:
    return {a["id"]: a["trusted"] for a in json.loads(run("agents", "list", "--source", "project", "--json").stdout)}


@pytest.mark.spec("REG-02")
def test_one_agent_a_folder_or_everything_can_be_trusted_and_a_change_takes_it_back(run: Run, write: Write) -> None:
    one = write("agents/one.md")
    write("agents/team/two.md")
    write(".retinue/agents/three.md")
    assert set(_trusted(run).values()) == {False}

    assert run("agents", "trust", "one").returncode == 0
    assert _trusted(run) == {"one": True, "team/two": False, "three": False}
    assert run("agents", "trust", "agents/team").returncode == 0
    assert _trusted(run) == {"one": True, "team/two": True, "three": False}
    assert run("agents", "trust").returncode == 0
    assert set(_trusted(run).values()) == {True}
    assert run("agents", "resolve", "one").returncode == 0

    one.write_text("---\ndescription: Other.\n---\nYou do other things.\n")
    assert _trusted(run)["one"] is False
    assert run("agents", "resolve", "one").returncode == 1


@pytest.mark.spec("REG-02")
def test_trust_can_be_revoked(run: Run, write: Write) -> None:
    write("agents/one.md")
    run("agents", "trust")

    assert run("agents", "trust", "one", "--revoke").returncode == 0
    assert _trusted(run) == {"one": False}


def test_a_broken_agent_is_named_and_not_trusted(run: Run, write: Write) -> None:
    write("agents/bad.md", "---\ntools: true\n---\nx\n")

    ran = run("agents", "trust", "--json")

    assert json.loads(ran.stdout) == []
    assert "bad of project:agents (agents/bad.md) is broken" in ran.stderr


def test_an_agent_that_needs_no_trust_is_wrong_usage(run: Run) -> None:
    ran = run("agents", "trust", "coder")

    assert ran.returncode == 2
    assert "needs no trust" in ran.stderr


@pytest.mark.spec("MOD-07")
def test_the_projects_settings_file_is_trusted_by_its_name_and_content(run: Run, write: Write) -> None:
    file = write("retinue.json", '{"agentRepositories": [{"name": "a", "gitUrl": "https://x.example/a"}]}')

    def state() -> str:
        return json.loads(run("repos", "list", "--json").stdout)[0]["state"]

    assert state() == "untrusted"
    assert "not trusted yet" in run("agents", "list").stderr
    assert run("agents", "trust", "retinue.json").returncode == 0
    assert state() == "never synced"
    file.write_text(file.read_text().replace("x.example", "y.example"))
    assert state() == "untrusted"
