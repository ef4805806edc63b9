"""`retinue mcp`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
STUB = Path(__file__).parents[1] / "remotes" / "servers" / "stub.py"


@pytest.fixture
def configured(home: Path) -> None:
    home.mkdir()
    (home / "retinue.toml").write_text(
        f"""
        [sandbox]
        mode = "off"

        [mcp_servers.stub]
        command = "{sys.executable}"
        args = ["{STUB}"]
        includeTools = ["echo", "touch"]

        [mcp_servers.broken]
        command = "{sys.executable}"
        args = ["{STUB}", "broken"]

        [mcp_servers.mail]
        httpUrl = "https://example.com/mcp"
        type = "http"
        trust = true
        description = "Mail."
        headers = {{ Authorization = "Bearer env(MAIL)" }}
        """
    )


@pytest.mark.spec("TOOL-06", "API-02")
def test_servers_are_listed_without_being_started_and_without_the_sdk(run: Run, configured: None) -> None:
    found = json.loads(run("mcp", "list", "--json").stdout)

    assert [(s["name"], s["transport"]) for s in found] == [("stub", "stdio"), ("broken", "stdio"), ("mail", "http")]
    assert "https://example.com/mcp" in run("mcp", "list").stdout


@pytest.mark.spec("TOOL-06", "API-02")
def test_a_server_is_tested(run: Run, configured: None) -> None:
    ran = run("mcp", "test", "stub", "--json")

    assert ran.returncode == 0
    found = json.loads(ran.stdout)
    assert found["server"] == "stub 1, protocol 2025-11-25"
    assert found["tools"] == [
        {"name": "mcp_stub_echo", "effect": "read", "changed": False, "about": "Says it again."},
        {"name": "mcp_stub_touch", "effect": "write", "changed": False, "about": "Makes a file."},
    ]
    assert "mcp_stub_echo" in run("mcp", "test", "stub").stdout


@pytest.mark.spec("API-02")
def test_what_does_not_work_is_told_with_what_the_server_said(run: Run, configured: None) -> None:
    broken, unknown, unset = (run("mcp", "test", name) for name in ("broken", "nobody", "mail"))

    assert broken.returncode == unknown.returncode == unset.returncode == 1
    assert "it said: stub is starting" in broken.stderr
    assert "configured: broken, mail, stub" in unknown.stderr
    assert "the variable MAIL is not set" in unset.stderr
