"""Signing in to remote agents, against an agent of the SDK behind each kind of credentials."""

import base64
import stat
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from retinue.net.settings import NetworkSettings
from retinue.remotes.a2a.connection import Connections
from retinue.remotes.a2a.oauth import Kept, Tokens
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import ModelError, SettingsError
from support.a2a import agent, listening

pytestmark = pytest.mark.spec("REG-10")
CARD: dict[str, object] = {
    "name": "Locked",
    "description": "Behind a door.",
    "version": "1",
    "supportedInterfaces": [{"url": "http://x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
}


@asynccontextmanager
async def locked(opens: Callable[[Mapping[str, str]], bool]) -> AsyncGenerator[tuple[int, list[bool]]]:
    """A card that is given only to those who may; tells which requests came with the right header."""
    asked: list[bool] = []

    async def card(request: Request) -> Response:
        asked.append(opens(request.headers))
        return JSONResponse(CARD) if asked[-1] else Response(status_code=401)

    async def token(request: Request) -> Response:
        form = dict(pair.split("=") for pair in (await request.body()).decode().split("&"))
        good = form["refresh_token"] == "old" and form["client_id"] == "me"
        return JSONResponse({"access_token": "fresh", "expires_in": 60}, 200 if good else 400)

    routes = [Route("/.well-known/agent-card.json", card), Route("/token", token, methods=["POST"])]
    async with listening(Starlette(routes=routes)) as port:
        yield port, asked


def remote(port: int, auth: object) -> AgentDefinition:
    return agent("far", kind="remote", agent_card_url=f"http://127.0.0.1:{port}", auth=auth)


def connections(folder: Path, port: int, environ: Mapping[str, str]) -> Connections:
    return Connections(
        folder, NetworkSettings(hosts=frozenset({f"127.0.0.1:{port}"})), lambda name, _: environ.get(name)
    )


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"type": "apiKey", "key": "$KEY"}, "x-api-key", "s3cret"),
        ({"type": "apiKey", "key": "$KEY", "name": "X-Other"}, "x-other", "s3cret"),
        ({"type": "http", "scheme": "Bearer", "token": "$KEY"}, "authorization", "Bearer s3cret"),
        (
            {"type": "http", "username": "me", "password": "$KEY"},
            "authorization",
            "Basic " + base64.b64encode(b"me:s3cret").decode(),
        ),
        ({"type": "http", "scheme": "Digest", "value": "$$KEY"}, "authorization", "Digest $KEY"),
    ],
)
async def test_a_card_is_asked_for_without_credentials_first(
    tmp_path: Path, auth: object, header: str, value: str
) -> None:
    async with locked(lambda headers: headers.get(header) == value) as (port, asked):
        held = connections(tmp_path, port, {"KEY": "s3cret"})
        card = await held.card(remote(port, auth))
        await held.close()
    assert (card.name, asked) == ("Locked", [False, True])


async def test_oauth_renews_what_is_kept_and_asks_for_a_person_when_nothing_is(tmp_path: Path) -> None:
    async with locked(lambda headers: headers.get("authorization") == "Bearer fresh") as (port, asked):
        auth = {"type": "oauth", "client_id": "me", "token_url": f"http://127.0.0.1:{port}/token"}
        held, definition = connections(tmp_path, port, {}), remote(port, auth)
        with pytest.raises(SettingsError, match="wants a sign-in") as refused:
            await held.card(definition)
        assert refused.value.hint == "run `retinue agents sign-in far`, then try again"
        name = _token_file(definition)
        Tokens(tmp_path / "tokens").write(name, Kept(access_token="x", refresh_token="old", expires=time.time() - 1))
        assert (await held.card(definition)).name == "Locked"
        await held.close()
        kept = tmp_path / "tokens" / name
    assert asked == [False, False, True]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def _token_file(definition: AgentDefinition) -> str:
    return sha256(f"{definition.agent_card_url} me".encode()).hexdigest() + ".json"


async def test_commands_in_values_are_not_run_and_missing_variables_are_named(tmp_path: Path) -> None:
    async with locked(lambda _: False) as (port, _):
        held = connections(tmp_path, port, {})
        with pytest.raises(SettingsError, match="commands are not run"):
            await held.card(remote(port, {"type": "apiKey", "key": "!cat /etc/passwd"}))
        with pytest.raises(SettingsError, match="the variable KEY is not set"):
            await held.card(remote(port, {"type": "apiKey", "key": "$KEY"}))
        with pytest.raises(ModelError, match="answered 401"):
            await held.card(remote(port, {"type": "apiKey", "key": "wrong"}))
        await held.close()
