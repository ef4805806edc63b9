import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]

AGENT: dict[str, object] = {
    "Name": "Custom Coder",
    "Slug": "custom-coder",
    "Description": "Project-specific coding assistant",
    "Category": "Primary",
    "ProviderId": "openai",
    "ModelId": "gpt-4o",
    "SystemPrompt": "You are a .NET specialist...",
    "MaxIterations": 40,
    "Tools": {"Mode": "AllExcept", "ToolList": ["bash"]},
}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    def file(**changes: object) -> str:
        path = tmp_path / "agent.json"
        path.write_text(json.dumps({**AGENT, **changes}))
        return str(path)

    return file


@pytest.mark.spec("REG-09")
def test_an_agent_is_created_shown_updated_and_deleted(run: Run, file: Callable[..., str]) -> None:
    created = run("agents", "create", "--file", file(), "--json")
    shown = json.loads(run("agents", "show", "custom-coder", "--json").stdout)
    updated = run("agents", "update", "--file", file(MaxIterations=7))
    again = json.loads(run("agents", "show", "custom-coder", "--json").stdout)
    deleted = run("agents", "delete", "custom-coder")

    assert created.returncode == updated.returncode == deleted.returncode == 0
    assert json.loads(created.stdout)["is_built_in"] is False
    assert (shown["source"], shown["location"], shown["status"]) == ("database", "database:custom-coder", "ok")
    assert (shown["definition"]["temperature"], shown["definition"]["max_steps"]) == (0.7, 40)
    assert shown["definition"]["tools"]["denied"] == ["bash"]
    assert again["definition"]["max_steps"] == 7
    assert run("agents", "show", "custom-coder").returncode == 1


@pytest.mark.spec("REG-09")
def test_all_mistakes_are_told_at_once(run: Run, file: Callable[..., str]) -> None:
    ran = run("agents", "create", "--file", file(Name="", Slug="Bad Slug", ModelId=None, MaxIterations=0))

    assert ran.returncode == 1
    for said in ("Name is required", "Slug must be lowercase", "ModelId is required", "MaxIterations must be at least"):
        assert said in ran.stderr


@pytest.mark.spec("REG-09")
def test_replacing_a_built_in_needs_override_and_built_ins_stay(run: Run, file: Callable[..., str]) -> None:
    refused = run("agents", "create", "--file", file(Slug="coder"))
    deleted = run("agents", "delete", "coder")
    taken = run("agents", "create", "--override", "--file", file(Slug="coder"))
    resolved = json.loads(run("agents", "resolve", "coder", "--json").stdout)

    assert (refused.returncode, deleted.returncode, taken.returncode) == (1, 1, 0)
    assert "needs override" in refused.stderr
    assert "is built in and can't be changed or deleted" in deleted.stderr
    assert (resolved["source"], [s["source"] for s in resolved["shadows"]]) == ("database", ["builtin"])


def test_what_to_delete_must_be_said(run: Run) -> None:
    assert run("agents", "delete").returncode == 2
