"""Signing in to remote agents: the card and the messages of an SDK agent behind each kind of credentials."""

import asyncio
import base64
import socket
import stat
import time
import urllib.request
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types.a2a_pb2 import AgentCard, Part
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from retinue.app.remotes import RemoteAgents
from retinue.app.retinue import Retinue
from retinue.app.settings import NetworkSection, Settings, SettingsFile, Tier
from retinue.models.scripted import ScriptedModels
from retinue.remotes.a2a.oauth import Kept
from retinue.schema.completion import Completion
from retinue.schema.errors import SettingsError
from retinue.testing.harness import QUICK
from support.a2a import agent, listening
from support.ports import free_port

pytestmark = pytest.mark.spec("REG-10")


@dataclass
class Locked:
    """The agent, a door that wants `header: value`, and the server that gives OAuth2's tokens."""

    header: str = "authorization"
    value: str = "Bearer fresh"
    url: str = ""
    asked: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    """Which path was asked for, and whether with the right credentials."""
    grants: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    challenge: str = ""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        tokens = [Route("/authorize", self._authorize), Route("/token", self._token, methods=["POST"])]
        async with listening(self) as port:
            self.url = f"http://127.0.0.1:{port}"
            flow = {"authorizationUrl": f"{self.url}/authorize", "tokenUrl": f"{self.url}/token", "scopes": {"a": ""}}
            card: dict[str, object] = {
                "name": "Locked",
                "description": "Behind a door.",
                "version": "1",
                "supportedInterfaces": [{"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
                "capabilities": {"streaming": True},
                "defaultInputModes": ["text/plain"],
                "defaultOutputModes": ["text/plain"],
                "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
                "securitySchemes": {"o": {"oauth2SecurityScheme": {"flows": {"authorizationCode": flow}}}},
            }
            parsed = ParseDict(card, AgentCard())
            handler = DefaultRequestHandler(_Echo(), InMemoryTaskStore(), parsed)

            async def give(_: Request) -> Response:
                return JSONResponse(card)

            routes = [Route("/.well-known/agent-card.json", give), *tokens, *create_jsonrpc_routes(handler, "/")]
            self._app = Starlette(routes=routes)
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path not in ("/authorize", "/token"):
            self.asked.append((path, Request(scope).headers.get(self.header) == self.value))
            if not self.asked[-1][1]:
                return await Response(status_code=401)(scope, receive, send)
        await self._app(scope, receive, send)

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        assert (asked["client_id"], asked["code_challenge_method"]) == ("me", "S256")
        self.challenge = asked["code_challenge"]
        return RedirectResponse(f"{asked['redirect_uri']}?code=c&state={asked['state']}")

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.grants.append(form)
        match form["grant_type"]:
            case "authorization_code":
                digest = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
                good = digest.decode() == self.challenge and form["code"] == "c"
            case "refresh_token":
                good = form["refresh_token"] == "renew-me"
            case _:  # Google's: a signed assertion
                good = form["assertion"].count(".") == 2
        granted = {"access_token": "fresh", "refresh_token": "renew-me", "expires_in": 3600}
        return JSONResponse(granted, 200 if good else 400)


class _Echo(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None and context.task_id and context.context_id
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.add_artifact([Part(text=f"Heard: {context.get_user_input()}")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise AssertionError("nobody cancels")


@asynccontextmanager
async def calling(
    folder: Path,
    url: str,
    auth: object,
    *,
    remote_env: Mapping[str, tuple[str, ...]] | None = None,
    deny: tuple[str, ...] = (),
) -> AsyncGenerator[Retinue]:
    """An app whose agent `far` is the one at `url`."""
    allow = NetworkSection(allow=(url.removeprefix("http://"),), deny=deny)
    file = SettingsFile(network=allow, remote_env=remote_env or {})
    far = agent("far", kind="remote", agent_card_url=url, auth=auth, prompt="")
    async with Retinue(
        agents=[far],
        models=ScriptedModels(["never asked"]),
        settings=Settings(home=folder, root=folder, user=Tier(name="user", settings=file)),
        data_dir=folder,
        workspace=folder,
        environ={"KEY": "s3cret"},
        tuning=QUICK,
    ) as app:
        yield app


async def said(app: Retinue, text: str = "hello") -> Completion:
    async with asyncio.timeout(20):
        return await app.engine.wait(await app.start("far", text))


def browse(page: str) -> None:
    """A person who signs in at once."""
    asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(page, timeout=10).read())


async def sign_in(app: Retinue, show: Callable[[str], None] = browse) -> None:
    remotes = RemoteAgents(app.settings, {})
    try:
        await remotes.connections.sign_in(app.pin("far").definition, show)
    finally:
        await remotes.close()


KEYS = [
    ({"type": "apiKey", "key": "$KEY"}, "x-api-key", "s3cret"),
    ({"type": "apiKey", "key": "$KEY", "name": "X-Other"}, "x-other", "s3cret"),
    ({"type": "http", "scheme": "Bearer", "token": "${KEY}"}, "authorization", "Bearer s3cret"),
    (
        {"type": "http", "username": "me", "password": "$KEY"},
        "authorization",
        "Basic " + base64.b64encode(b"me:s3cret").decode(),
    ),
    ({"type": "http", "scheme": "Digest", "value": "$$KEY"}, "authorization", "Digest $KEY"),
    ({"type": "http", "value": "Custom a b"}, "authorization", "Custom a b"),
]


@pytest.mark.parametrize(("auth", "header", "value"), KEYS)
async def test_the_card_is_asked_for_without_credentials_first_and_messages_go_with_them(
    tmp_path: Path, auth: object, header: str, value: str
) -> None:
    locked = Locked(header, value)
    async with locked.running(), calling(tmp_path, locked.url, auth, remote_env={locked.url: ("KEY",)}) as app:
        first, second = await said(app), await said(app, "again")
    card = "/.well-known/agent-card.json"
    assert (first.result, second.result) == ("Heard: hello", "Heard: again")
    assert [asked for asked in locked.asked if asked[0] == card] == [(card, False), (card, True)]
    assert {is_right for path, is_right in locked.asked if path != card} == {True}


async def test_a_variable_goes_only_where_the_operator_allows_it(tmp_path: Path) -> None:
    locked = Locked("x-api-key", "s3cret")
    auth, other = {"type": "apiKey", "key": "$KEY"}, {"https://other.example": ("KEY",)}
    async with locked.running(), calling(tmp_path, locked.url, auth, remote_env=other) as app:
        refused = await said(app)
    assert refused.status == "FAILED"
    assert f"$KEY may not be sent to {locked.url}" in (refused.error or "")
    assert f'"{locked.url}" = ["KEY"]' in (refused.error or "")


async def test_a_host_that_the_operator_denies_is_not_spoken_to(tmp_path: Path) -> None:
    locked = Locked()
    async with locked.running(), calling(tmp_path, locked.url, None, deny=("127.0.0.1",)) as app:
        refused = await said(app)
    assert "127.0.0.1 is denied by network.deny" in (refused.error or "") and locked.asked == []


async def test_a_secret_of_a_client_goes_where_tokens_come_from_only_if_that_is_allowed(tmp_path: Path) -> None:
    auth = {"type": "oauth", "client_id": "me", "client_secret": "$KEY", "token_url": "https://evil.example/token"}
    locked = Locked()
    async with locked.running(), calling(tmp_path, locked.url, auth, remote_env={locked.url: ("KEY",)}) as app:
        refused = await said(app)
    assert "$KEY may not be sent to https://evil.example/token" in (refused.error or "")


async def test_what_was_refused_is_forgotten_and_asked_for_again(tmp_path: Path) -> None:
    """The connection is dropped: the next call reads the card and the credentials anew."""
    locked, auth = Locked("x-api-key", "s3cret"), {"type": "apiKey", "key": "$KEY"}
    async with locked.running(), calling(tmp_path, locked.url, auth, remote_env={locked.url: ("KEY",)}) as app:
        good = await said(app)
        locked.value = "another"
        refused = await said(app)
        locked.value = "s3cret"
        again = await said(app)
    assert (good.status, refused.status, again.status) == ("SUCCESS", "FAILED", "SUCCESS")
    assert "refused our credentials (401)" in (refused.error or "")
    assert [path for path, _ in locked.asked].count("/.well-known/agent-card.json") == 4


async def test_a_person_signs_in_with_pkce_and_tokens_are_renewed(tmp_path: Path) -> None:
    locked, port = Locked(), free_port()
    async with locked.running():
        tokens = {"token_url": f"{locked.url}/token", "authorization_url": f"{locked.url}/authorize"}
        auth = {"type": "oauth", "client_id": "me", "redirect_port": port, "scopes": "a b", **tokens}
        async with calling(tmp_path, locked.url, auth) as app:
            before = await said(app)
            async with asyncio.timeout(20):
                await sign_in(app)
            signed = await said(app)
            (file,) = (tmp_path / "a2a" / "tokens").iterdir()
            kept = msgspec.json.decode(file.read_bytes(), type=Kept)
            late = msgspec.structs.replace(kept, access_token="stale", expires=time.time() - 1)
            file.write_bytes(msgspec.json.encode(late))
            renewed = await said(app)
            stale = msgspec.structs.replace(kept, access_token="stale", expires=None)
            file.write_bytes(msgspec.json.encode(stale))  # nobody knows that it is over but the agent
            recovered = await said(app)
    assert before.status == "FAILED" and "retinue agents sign-in far" in (before.error or "")
    assert (signed.result, renewed.result, recovered.result) == ("Heard: hello",) * 3
    assert [form["grant_type"] for form in locked.grants] == ["authorization_code", "refresh_token", "refresh_token"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_the_endpoints_of_a_sign_in_come_from_an_open_card(tmp_path: Path) -> None:
    locked, port = Locked("accept", "application/json"), free_port()
    async with locked.running():
        auth = {"type": "oauth", "client_id": "me", "redirect_port": port}
        async with calling(tmp_path, locked.url, auth) as app, asyncio.timeout(20):
            await sign_in(app)
            locked.header, locked.value = "authorization", "Bearer fresh"
            assert (await said(app)).result == "Heard: hello"


async def test_a_sign_in_that_fails_says_why(tmp_path: Path) -> None:
    locked, port = Locked(), free_port()

    def refuse(page: str) -> None:
        state = page.partition("state=")[2].partition("&")[0]
        browse(f"http://127.0.0.1:{port}/callback?code=stolen&state=guessed")
        browse(f"http://127.0.0.1:{port}/callback?error=access_denied&state={state}")

    async with locked.running():
        tokens = {"token_url": f"{locked.url}/none", "authorization_url": f"{locked.url}/authorize"}
        auth = {"type": "oauth", "client_id": "me", "redirect_port": port, **tokens}
        async with calling(tmp_path, locked.url, auth) as app, asyncio.timeout(20):
            with pytest.raises(SettingsError, match="the sign-in was refused: access_denied"):
                await sign_in(app, refuse)
            with pytest.raises(SettingsError, match="did not take the code"):
                await sign_in(app)
            with socket.socket() as taken:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind(("127.0.0.1", port))
                taken.listen()
                with pytest.raises(SettingsError, match=f"port {port}"):
                    await sign_in(app)


async def test_googles_credentials_go_to_google_or_where_the_operator_allows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, results = Locked(), dict[str, Completion]()
    async with locked.running():
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(_service_account(tmp_path, f"{locked.url}/token")))
        allowed = {locked.url: ("google-credentials",)}
        for name, remote_env in (("refused", {}), ("allowed", allowed)):
            auth = {"type": "google-credentials"}
            async with calling(tmp_path / name, locked.url, auth, remote_env=remote_env) as app:
                results[name] = await said(app)
    assert "$google-credentials may not be sent" in (results["refused"].error or "")
    assert results["allowed"].result == "Heard: hello"
    assert {form["grant_type"] for form in locked.grants} == {"urn:ietf:params:oauth:grant-type:jwt-bearer"}


async def test_googles_credentials_that_are_not_there_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Locked()
    async with locked.running():
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
        allowed = {locked.url: ("google-credentials",)}
        async with calling(tmp_path, locked.url, {"type": "google-credentials"}, remote_env=allowed) as app:
            failed = await said(app)
    assert "Google's credentials can't be used" in (failed.error or "")


def _service_account(folder: Path, token_uri: str) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    names = {"type": "service_account", "project_id": "p", "private_key_id": "k", "client_email": "a@p.example"}
    path = folder / "account.json"
    path.write_bytes(msgspec.json.encode({**names, "private_key": pem, "client_id": "1", "token_uri": token_uri}))
    return path


WRONG: list[tuple[dict[str, object], str]] = [
    ({"type": "apiKey", "key": "!cat /etc/passwd"}, "commands are not run"),
    ({"type": "apiKey", "key": "$MISSING"}, "the variable MISSING is not set"),
    ({"type": "apiKey", "key": "wrong"}, "answered 401"),
    ({"type": "kerberos"}, "auth of far does not fit"),
]


@pytest.mark.parametrize(("auth", "why"), WRONG)
async def test_what_is_wrong_with_credentials_is_told(tmp_path: Path, auth: object, why: str) -> None:
    locked = Locked()
    async with locked.running(), calling(tmp_path, locked.url, auth, remote_env={locked.url: ("MISSING",)}) as app:
        failed = await said(app)
    assert failed.status == "FAILED" and why in (failed.error or "")
