import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
Commit = Callable[..., Path]

AGENT = "---\ndescription: d\n---\nx\n"


@pytest.mark.spec("REG-03", "REG-06")
def test_a_repository_is_added_synced_shown_and_removed(run: Run, repository: Commit, home: Path) -> None:
    where = repository({"sales/assistant/prompt.md": AGENT, "old.md": AGENT})

    added = run("repos", "add", str(where), "--name", "main-agents", "--root")
    first = run("repos", "sync", "--json")
    repository({"sales/assistant/prompt.md": AGENT + "y\n", "old.md": None, "new.md": AGENT})
    second = run("repos", "sync", "main-agents")
    status = json.loads(run("repos", "status", "--json").stdout)
    removed = run("repos", "remove", "main-agents")

    assert added.returncode == 0
    assert json.loads(first.stdout)["summary"] == {"new": ["old", "sales/assistant"], "changed": [], "gone": []}
    assert "1 new (new), 1 changed (sales/assistant), 1 gone (old)" in second.stderr
    assert [(r["name"], r["state"], r["agents"], r["error"]) for r in status] == [("main-agents", "ready", 2, None)]
    assert removed.returncode == 0
    assert json.loads(run("repos", "list", "--json").stdout) == []
    assert list((home / "mirrors").iterdir()) == []


@pytest.mark.spec("REG-03")
def test_every_field_of_s0_can_be_given(run: Run, home: Path) -> None:
    ran = run(
        "repos", "add", "https://git.example/team/agents.git", "--branch", "stable", "--interval", "1h",
        "--token", "env(TOKEN)", "--webhook-secret", "env(HOOK)", "--inactive", "--read-only",
    )  # fmt: skip

    assert ran.returncode == 0
    assert json.loads((home / "repositories.json").read_text()) == {
        "agentRepositories": [
            {
                "name": "agents",
                "gitUrl": "https://git.example/team/agents.git",
                "branch": "stable",
                "isRoot": False,
                "syncInterval": "1h",
                "authToken": "env(TOKEN)",
                "webhookSecret": "env(HOOK)",
                "isActive": False,
                "readOnly": True,
            }
        ]
    }
    [listed] = json.loads(run("repos", "list", "--json").stdout)
    assert (listed["state"], listed["authType"], listed["syncInterval"]) == ("inactive", "token", 3600.0)


@pytest.mark.spec("REG-03", "REG-05")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("https://token:secret@git.example/a",), "holds a credential"),
        (("https://git.example/a", "--token", "ghp_secret"), "literal secret"),
        (("ext::sh -c id",), "remote helpers run programs"),
        (("https://git.example/a", "--branch", "--upload-pack=x"), "wanted a name like"),
    ],
)
def test_a_bad_repository_is_not_added_and_no_secret_is_printed(
    args: tuple[str, ...], said: str, run: Run, home: Path
) -> None:
    ran = run("repos", "add", *args)

    assert ran.returncode == 2
    assert said in ran.stderr
    assert "secret@" not in ran.stderr and "ghp_secret" not in ran.stderr
    assert not (home / "repositories.json").exists()


def test_a_name_can_be_taken_once(run: Run, repository: Commit) -> None:
    where = repository({"a.md": AGENT})
    run("repos", "add", str(where), "--name", "x")

    ran = run("repos", "add", str(where), "--name", "x")

    assert ran.returncode == 2
    assert "there is a repository 'x' already" in ran.stderr


@pytest.mark.spec("REG-03")
def test_s0s_configuration_lists_as_printed(run: Run, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "retinue.json").write_text(
        '{"agentRepositories": [{"name": "main-agents", "gitUrl": "https://github.com/company/main-agents.git",'
        '"branch": "production", "isRoot": true, "syncInterval": "5m", "authType": "ssh-key",'
        '"sshKeyPath": "/secrets/git-deploy-key", "webhookSecret": "env(GIT_WEBHOOK_SECRET)", "isActive": true}]}'
    )

    [listed] = json.loads(run("repos", "list", "--json").stdout)
    removed = run("repos", "remove", "main-agents")

    assert (listed["name"], listed["branch"], listed["isRoot"], listed["authType"], listed["prefix"]) == (
        "main-agents",
        "production",
        True,
        "ssh-key",
        "",
    )
    assert (removed.returncode, "remove it there" in removed.stderr) == (2, True)


@pytest.mark.spec("REG-01", "REG-06")
def test_a_repository_that_vanishes_keeps_its_agents_and_says_it_is_stale(
    run: Run, repository: Commit, tmp_path: Path
) -> None:
    where = repository({"a.md": AGENT})
    run("repos", "add", str(where), "--root", "--name", "x")
    run("repos", "sync")
    where.rename(tmp_path / "elsewhere")

    synced = run("repos", "sync")
    status = run("repos", "status", "--json")

    assert synced.returncode == status.returncode == 1
    assert json.loads(status.stdout)[0]["state"] == "stale"
    assert run("agents", "resolve", "a").returncode == 0


@pytest.mark.spec("REG-01")
def test_a_name_of_a_repository_that_was_never_synced_is_unavailable_and_not_not_found(
    run: Run, repository: Commit
) -> None:
    run("repos", "add", str(repository({"a.md": AGENT})), "--name", "exp")

    ran = run("agents", "resolve", "exp/a")

    assert ran.returncode == 1
    assert "'exp/a' may be in git:exp, which can't be read" in ran.stderr
    assert "there is no agent 'a'" in run("agents", "resolve", "a").stderr


def test_syncing_an_unknown_repository_says_which_there_are(run: Run) -> None:
    ran = run("repos", "sync", "nope")

    assert ran.returncode == 1
    assert "there is no repository 'nope'" in ran.stderr


def test_a_misconfigured_repository_is_listed_and_stops_nothing(run: Run, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "retinue.toml").write_text("[[repositories]]\nname = 'x'\n")

    status = json.loads(run("repos", "status", "--json").stdout)

    assert [(r["name"], r["state"]) for r in status] == [("x", "misconfigured")]
    assert "gitUrl" in status[0]["error"]
    assert run("agents", "list").returncode == 0
