"""`retinue keys`: made, listed, revoked."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

Ran = subprocess.CompletedProcess[str]


@pytest.mark.spec("API-02", "API-03")
def test_a_key_is_made_listed_and_revoked(run: Callable[..., Ran], home: Path) -> None:
    made = run("keys", "create", "--name", "ci", "--scopes", "threads:write, agents:read", "--tenant", "acme")
    token = made.stdout.strip()
    id = token.split("_")[1]
    run("keys", "create", "--name", "short", "--scopes", "memory:*", "--expires", "12h")

    assert made.returncode == 0
    assert "the token is not shown again" in made.stderr
    listed = run("keys", "list").stdout
    assert f"{id}  ci" in listed and "threads:write,agents:read" in listed and token not in listed
    found = msgspec.json.decode(run("keys", "list", "--tenant", "acme", "--json").stdout)
    assert [(key["id"], key["tenant"], key["scopes"]) for key in found] == [
        (id, "acme", ["threads:write", "agents:read"])
    ]
    assert run("keys", "revoke", id).stdout == f"revoked {id}\n"
    assert "revoked" in run("keys", "list", "--tenant", "acme").stdout
    assert run("keys", "revoke", id).returncode == 1
    stored = b"".join(file.read_bytes() for file in home.iterdir() if file.is_file())
    assert token.encode() not in stored


@pytest.mark.spec("API-02")
def test_wrong_scopes_tenants_and_durations_are_refused(run: Callable[..., Ran]) -> None:
    for arguments, said in (
        (("--scopes", "threads:all"), "threads:all is no scope"),
        (("--scopes", "admin", "--tenant", "Not One"), "'Not One' is no tenant"),
        (("--scopes", "admin", "--expires", "soon"), "--expires 'soon' is no duration"),
    ):
        refused = run("keys", "create", "--name", "x", *arguments)
        assert refused.returncode == 2
        assert said in refused.stderr
