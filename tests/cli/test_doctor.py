import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from retinue.cli.doctor import CHECKS

Run = Callable[..., CompletedProcess[str]]


def _findings(ran: CompletedProcess[str]) -> dict[tuple[str, str], str]:
    return {(f["check"], f["message"]): f["status"] for f in json.loads(ran.stdout)}


def test_a_fresh_place_has_warnings_and_no_errors(run: Run) -> None:
    ran = run("doctor")
    checks = {f["check"] for f in json.loads(run("doctor", "--json").stdout)}

    assert ran.returncode == 0
    assert "no provider of models is configured" in ran.stdout
    assert "→ add [providers.NAME] to retinue.toml" in ran.stdout
    assert checks <= {name for name, _ in CHECKS}


def test_a_providers_key_is_looked_for_by_name_and_never_shown(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir(exist_ok=True)
    (home / "retinue.toml").write_text("[providers.openai]\nformat = 'openai-chat'\nkey = 'env(SOME_KEY)'\n")
    monkeypatch.delenv("SOME_KEY", raising=False)
    missing = run("doctor", "--json")
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    there = run("doctor", "--json")

    assert missing.returncode == 1
    assert _findings(missing)["providers", "openai: its key is in SOME_KEY, which is not set"] == "error"
    assert _findings(there)["providers", "openai: openai-chat, key from SOME_KEY"] == "ok"
    assert "sk-very-secret" not in there.stdout


def test_repositories_are_asked_unless_offline(run: Run, repository: Callable[..., Path], tmp_path: Path) -> None:
    where = repository({"a.md": "---\ndescription: d\n---\nx\n"})
    run("repos", "add", str(where), "--name", "x")
    run("repos", "sync")
    assert _findings(run("doctor", "--json"))["repositories", "x answers"] == "ok"
    where.rename(tmp_path / "gone")

    online, offline = run("doctor", "--json"), run("doctor", "--json", "--offline")

    assert online.returncode == 1
    assert [status for (check, _), status in _findings(online).items() if check == "repositories"] == ["error"]
    assert [check for check, _ in _findings(offline) if check == "repositories"] == []


def test_broken_and_untrusted_agents_are_named(run: Run, write: Callable[..., Path]) -> None:
    write("agents/bad.md", "---\ntools: true\n---\nx\n")
    write("agents/good.md")

    findings = _findings(run("doctor", "--json"))

    assert findings["agents", "project:agents: agents/bad.md is broken"] == "warning"
    assert findings["agents", "project:agents: 1 untrusted"] == "warning"


def test_a_broken_settings_file_is_a_finding(run: Run, write: Callable[..., Path]) -> None:
    write("retinue.toml", "default_agnet = 'x'\n")

    [finding] = json.loads(run("doctor", "--json").stdout)

    assert finding["message"].endswith("retinue.toml:1: default_agnet is not a known key")
    assert finding["fix"] == "did you mean 'default_agent'?"


def test_a_default_agent_that_does_not_exist_is_an_error(run: Run, write: Callable[..., Path]) -> None:
    write("retinue.toml", "default_agent = 'nobody'\n")

    ran = run("doctor")

    assert ran.returncode == 1
    assert "there is no agent 'nobody'" in ran.stdout


def test_a_damaged_database_is_reported_and_the_other_sources_load(run: Run, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "retinue.db").write_bytes(b"this is no database" * 100)

    ran = run("doctor", "--json")

    assert ran.returncode == 1
    assert any(c == "agents" and m.startswith("database:") and s == "error" for (c, m), s in _findings(ran).items())
    assert run("agents", "resolve", "coder").returncode == 0
