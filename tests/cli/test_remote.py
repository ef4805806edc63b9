"""`retinue agents add-remote` and `sign-in`, against an agent of this machine."""

import asyncio
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from support.a2a import listening
from support.ports import free_port

pytestmark = pytest.mark.spec("REG-10", "API-02")
Run = Callable[..., CompletedProcess[str]]
CARD: dict[str, Any] = {
    "name": "Legal Reviewer",
    "description": "Reads contracts.",
    "version": "1",
    "supportedInterfaces": [{"url": "http://x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "Clauses", "description": "Checks clauses.", "tags": ["law"]}],
}


@asynccontextmanager
async def _partner() -> AsyncGenerator[str]:
    async def card(request: Request) -> Response:
        is_open = "open" in request.url.path or request.headers.get("authorization") == "Bearer s3cret"
        return JSONResponse(CARD) if is_open else Response(status_code=401)

    async def authorize(request: Request) -> Response:
        asked = request.query_params
        return RedirectResponse(f"{asked['redirect_uri']}?code=c&state={asked['state']}")

    async def token(_: Request) -> Response:
        return JSONResponse({"access_token": "t", "expires_in": 60})

    routes = [
        *(Route(f"/{place}/.well-known/agent-card.json", card) for place in ("open", "locked")),
        Route("/authorize", authorize),
        Route("/token", token, methods=["POST"]),
    ]
    async with listening(Starlette(routes=routes)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def partner(home: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """A server in a thread, because commands run an event loop of their own; settings that allow it."""
    ready, url, stop = threading.Event(), "", asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        nonlocal url
        async with _partner() as url:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    home.mkdir()
    (home / "retinue.toml").write_text(
        f'[network]\nallow = ["{url.removeprefix("http://")}"]\n\n[remote_env]\n"{url}" = ["PARTNER_TOKEN"]\n'
    )
    monkeypatch.setenv("PARTNER_TOKEN", "s3cret")
    yield url
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_a_remote_agent_is_added_as_a_file_and_listed(run: Run, partner: str, home: Path) -> None:
    added = run("agents", "add-remote", f"{partner}/open")
    listed = run("agents", "list")
    shown = run("agents", "show", "legal-reviewer")

    assert added.returncode == 0, added.stderr
    assert "legal-reviewer" in listed.stdout
    assert "Checks clauses." in shown.stdout and f"{partner}/open" in (home / "agents/legal-reviewer.md").read_text()


def test_a_card_behind_a_door_is_read_with_the_variable_and_the_file_names_only_that(
    run: Run, partner: str, home: Path
) -> None:
    name = "partner/legal"
    added = run("agents", "add-remote", f"{partner}/locked", "--name", name, "--token", "$PARTNER_TOKEN")
    again = run("agents", "add-remote", f"{partner}/locked", "--name", name, "--token", "$PARTNER_TOKEN")
    text = (home / "agents/partner/legal.md").read_text()

    assert added.returncode == 0, added.stderr
    assert "$PARTNER_TOKEN" in text and "s3cret" not in text
    assert again.returncode == 2 and "exists" in again.stderr


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("/locked",), "answered 401"),
        (("/locked", "--token", "s3cret"), "never written itself"),
        (("/locked", "--api-key", "s3cret"), "never written itself"),
        (("/locked", "--token", "$OTHER"), "$OTHER may not be sent"),
        (("/nothing",), "answered 404"),
        (("/open", "--name", "../../outside"), "is no name for an agent"),
    ],
)
def test_what_can_not_be_added_says_why_and_leaves_no_file(
    run: Run, partner: str, home: Path, given: tuple[str, ...], why: str
) -> None:
    ran = run("agents", "add-remote", partner + given[0], *given[1:])

    assert ran.returncode != 0 and why in ran.stderr, ran.stderr
    assert not list(home.rglob("*.md"))


def test_a_person_signs_in_from_the_command_line(project: Path, partner: str, home: Path) -> None:
    auth = f"type: oauth, client_id: me, authorization_url: {partner}/authorize, token_url: {partner}/token"
    (home / "agents").mkdir()
    (home / "agents" / "far.md").write_text(
        f"---\nkind: remote\ndescription: Far.\nagent_card_url: {partner}/locked\n"
        f"auth: {{{auth}, redirect_port: {free_port()}}}\n---\n"
    )
    command = [sys.executable, "-c", "from retinue.cli.main import main; main()", "agents", "sign-in", "far"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=project, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        page = process.stderr.readline().removeprefix("open this page: ").strip()
        urllib.request.urlopen(page, timeout=10).read()
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "signed in to far\n")
    assert len(list((home / "a2a" / "tokens").iterdir())) == 1


def test_an_agent_without_oauth_has_nothing_to_sign_in_to(run: Run, partner: str) -> None:
    run("agents", "add-remote", f"{partner}/open")

    ran = run("agents", "sign-in", "legal-reviewer")
    local = run("agents", "sign-in", "coder")
    unknown = run("agents", "sign-in", "nobody")

    assert ran.returncode != 0 and "no OAuth2" in ran.stderr
    assert local.returncode != 0 and "no OAuth2" in local.stderr
    assert unknown.returncode != 0 and "nobody" in unknown.stderr
