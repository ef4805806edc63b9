"""Signing in, against a server that checks every step: metadata, registration, PKCE, tokens, renewal."""

import asyncio
import base64
import hashlib
import json
import stat
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from retinue.schema.agent import McpServer
from support.mcp import Caller, McpFactory
from support.ports import free_port

ABOUT: dict[str, object] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "o", "version": "1"},
}
TOOL = {"name": "who", "description": "Who I am.", "inputSchema": {"type": "object"}}


class Protected:
    """An MCP server over HTTP and the authorization server that it names."""

    def __init__(self) -> None:
        self.url = ""
        self.valid = {"fixed"}
        self.challenges: dict[str, str] = {}
        self.grants: list[str] = []
        self.headers: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.add_routes(
            [
                web.post("/mcp", self.mcp),
                web.get("/.well-known/oauth-protected-resource/mcp", self.resource),
                web.get("/.well-known/oauth-authorization-server", self.metadata),
                web.post("/register", self.register),
                web.get("/authorize", self.authorize),
                web.post("/token", self.token),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await runner.cleanup()

    async def mcp(self, request: web.Request) -> web.Response:
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if given not in self.valid:
            where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
            return web.Response(status=401, headers={"WWW-Authenticate": where})
        message = await request.json()
        results: dict[str, object] = {
            "initialize": ABOUT,
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": f"token {given[:4]}"}]},
        }
        if "id" not in message:
            return web.Response(status=202)
        if message["method"] not in results:
            error = {"code": -32601, "message": "unknown"}
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    async def resource(self, _: web.Request) -> web.Response:
        return web.json_response({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})

    async def metadata(self, _: web.Request) -> web.Response:
        ends = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in
                (("authorization", "authorize"), ("token", "token"), ("registration", "register"))}  # fmt: skip
        methods = ["none", "client_secret_basic"]
        more = {"code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": methods}
        return web.json_response({"issuer": self.url, "response_types_supported": ["code"], **ends, **more})

    async def register(self, request: web.Request) -> web.Response:
        return web.json_response({**await request.json(), "client_id": "client-1"}, status=201)

    async def authorize(self, request: web.Request) -> web.Response:
        self.challenges["code-1"] = request.query["code_challenge"]
        assert request.query["code_challenge_method"] == "S256"
        target = f"{request.query['redirect_uri']}?code=code-1&state={request.query['state']}"
        return web.Response(status=302, headers={"Location": target})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        grant = str(form["grant_type"])
        self.grants.append(grant)
        if grant == "authorization_code":
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == self.challenges[str(form["code"])]
        elif grant == "refresh_token":
            assert form["refresh_token"] == "renew-me"
        else:
            assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"me:hush-hush").decode()
        token = f"{grant[:4]}-{len(self.grants)}"
        self.valid.add(token)
        granted = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "renew-me"}
        return web.json_response(granted)


def browse(url: str) -> None:
    """A person who signs in at once."""
    asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(url, timeout=10).read())


@pytest.mark.spec("TOOL-06")
async def test_a_person_signs_in_once_and_the_token_is_kept_for_its_owner_alone(
    mcp: McpFactory, tmp_path: Path
) -> None:
    protected = Protected()
    async with protected.running() as host:
        auth = {"type": "oauth", "redirect_port": free_port()}
        servers = {"o": McpServer(url=f"{protected.url}/mcp", auth=auth)}

        agent = Caller(mcp(servers, allow=(host,)), tmp_path, "o")
        refused = await agent.call("mcp_o_connect")
        assert "it wants a sign-in; `retinue mcp test o` does that" in refused.text

        person = Caller(mcp(servers, allow=(host,), show=browse), tmp_path, "o")
        assert (await person.call("mcp_o_who")).text == "token auth"
        [kept] = (tmp_path / "home" / "mcp" / "tokens").glob("*.json")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600

        later = Caller(mcp(servers, allow=(host,)), tmp_path, "o")
        assert (await later.call("mcp_o_who")).text == "token auth"
        assert protected.grants == ["authorization_code"]


@pytest.mark.spec("TOOL-06")
async def test_a_token_that_expired_is_renewed_without_anybody(mcp: McpFactory, tmp_path: Path) -> None:
    protected = Protected()
    async with protected.running() as host:
        servers = {"o": McpServer(url=f"{protected.url}/mcp", auth={"redirect_port": free_port()})}
        person = Caller(mcp(servers, allow=(host,), show=browse), tmp_path, "o")
        await person.call("mcp_o_who")
        [kept] = (tmp_path / "home" / "mcp" / "tokens").glob("*.json")
        kept.write_text(json.dumps({**json.loads(kept.read_text()), "expires": 1.0}))
        protected.valid.clear()

        later = Caller(mcp(servers, allow=(host,)), tmp_path, "o")

        assert (await later.call("mcp_o_who")).text == "token refr"
        assert protected.grants == ["authorization_code", "refresh_token"]


@pytest.mark.spec("TOOL-06")
async def test_client_credentials_go_to_the_issuer_that_was_named_and_to_nobody_else(
    mcp: McpFactory, tmp_path: Path
) -> None:
    protected = Protected()
    async with protected.running() as host:
        auth = {"grant": "client_credentials", "client_id": "me", "client_secret": "env(HUSH)"}

        async def told(issuer: str) -> str:
            server = McpServer(url=f"{protected.url}/mcp", auth={**auth, "issuer": issuer})
            servers = mcp({"o": server}, allow=(host,), environ={"HUSH": "hush-hush"})
            names = await Caller(servers, tmp_path, "o").names()
            return (await Caller(servers, tmp_path, "o").call(names[0])).text

        assert await told(protected.url) == "token clie"
        assert "example.com" in await told("https://example.com")
        assert protected.grants == ["client_credentials"]


@pytest.mark.spec("TOOL-06")
@pytest.mark.parametrize(
    "server",
    [
        McpServer(headers={"Authorization": "Bearer env(T)", "X-Team": "a"}),
        McpServer(auth={"type": "bearer", "token": "env(T)"}),
    ],
)
async def test_headers_and_tokens_from_variables_go_along(mcp: McpFactory, tmp_path: Path, server: McpServer) -> None:
    protected = Protected()
    async with protected.running() as host:
        there = McpServer(url=f"{protected.url}/mcp", headers=server.headers, auth=server.auth)
        caller = Caller(mcp({"o": there}, allow=(host,), environ={"T": "fixed"}), tmp_path, "o")

        assert (await caller.call("mcp_o_who")).status == "ok"
        assert protected.headers.get("x-team") == server.headers.get("X-Team")


@pytest.mark.spec("TOOL-06")
async def test_auth_that_makes_no_sense_is_told(mcp: McpFactory, tmp_path: Path) -> None:
    servers = mcp({"o": McpServer(url="https://example.com/mcp", auth={"type": "magic"})})

    assert "Invalid enum value 'magic'" in (await Caller(servers, tmp_path, "o").call("mcp_o_connect")).text
