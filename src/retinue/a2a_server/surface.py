"""The A2A surface as an ASGI app: `/a2a/AGENT` for each exposed agent, `/a2a` for all of them.

    GET  /a2a/AGENT/.well-known/agent-card.json    the card; public
    POST /a2a/AGENT                                JSON-RPC
    …    /a2a/AGENT/message:send, /tasks, …        HTTP+JSON
    GET  /.well-known/agent-card.json              the directory; the agent's card when there is only one

Protocol 1.0, and 0.3 where `serve.a2a_03` says so. Which agent a path means is found here,
because ids hold slashes and the catalog changes while the server runs; the rest is the SDK's.
"""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Message, Receive, Scope, Send

from retinue.a2a_server.callers import SCOPE_KEY, Authenticate, Call, Caller, ContextBuilder
from retinue.a2a_server.cards import exposed
from retinue.a2a_server.handler import Handler, card_for
from retinue.a2a_server.push import Pushes
from retinue.app.retinue import Retinue
from retinue.net.client import GuardedClient
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import DEFAULT_TENANT
from retinue.web.auth import authorize
from retinue.web.problem import Refused, answer
from retinue.web.served import Served

PREFIX = "/a2a"
CARD = "/.well-known/agent-card.json"
_OLD_CARD = "/.well-known/agent.json"
_NOBODY = Caller(tenant=DEFAULT_TENANT, name="")


def with_keys(served: Served) -> Authenticate:
    """Callers are API keys that may write threads."""

    async def authenticate(request: Request) -> Caller:
        principal = await authorize(served, request, "threads:write")
        return Caller(tenant=principal.tenant, name=principal.name, scopes=principal.scopes)

    return authenticate


def surface(served: Served) -> Sequence[BaseRoute]:
    """The routes of a server with API keys; it is open until the server closes."""
    made, opened = A2aSurface(served.app, with_keys(served)), asyncio.Event()

    async def serve() -> None:
        async with made:
            opened.set()
            await served.closing.wait()

    serving = asyncio.create_task(serve())

    class Opened:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if serving.done():
                raise Refused(503, "closing", "the server is closing", headers={"Retry-After": "1"})
            await opened.wait()
            await made(scope, receive, send)

    app = Opened()
    return [*(Route(path, app) for path in (CARD, _OLD_CARD, PREFIX)), Mount(PREFIX, app)]


class A2aSurface:
    """Use as an async context manager around serving: it delivers push notifications meanwhile."""

    def __init__(self, app: Retinue, authenticate: Authenticate) -> None:
        self._app = app
        self._authenticate = authenticate
        self._old = app.settings.serve.a2a_03

    async def __aenter__(self) -> "A2aSurface":
        self._client = await GuardedClient(self._app.settings.network).__aenter__()
        self._pushes = Pushes(self._app, self._client)
        handler, builder = Handler(self._app, self._pushes, old=self._old), ContextBuilder()
        self._router = Router(
            [
                *create_jsonrpc_routes(handler, "/", context_builder=builder, enable_v0_3_compat=self._old),
                *create_rest_routes(handler, context_builder=builder, enable_v0_3_compat=self._old),
            ],
            redirect_slashes=False,
        )
        await self._pushes.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pushes.stop()
        await self._client.__aexit__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await self._answer(request, scope, receive, send)
        except Refused as refused:
            await answer(refused)(scope, receive, send)

    async def _answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"].removeprefix(PREFIX)
        if path.endswith((CARD, _OLD_CARD)) and request.method == "GET":
            found = await self._card(request, path.removesuffix(CARD).removesuffix(_OLD_CARD))
            return await found(scope, receive, send)
        call, rest = self._call(request, await self._authenticate(request), path)
        inner = {**scope, "path": rest or "/", "root_path": "", "raw_path": None, SCOPE_KEY: call}
        await self._router(inner, await _readable(request), send)

    async def _card(self, request: Request, path: str) -> Response:
        """Public cards are the shared catalog's; a tenant's own agents show theirs to its keys."""
        caller = await self._authenticate(request) if "authorization" in request.headers else _NOBODY
        call, rest = self._call(request, caller, path)
        if rest:
            raise Refused(404, "not_found", "there is no such agent here", hint=f"{PREFIX}{CARD} lists them")
        found = JSONResponse(agent_card_to_dict(card_for(call, old=self._old)))
        headers = {"Cache-Control": "max-age=60", "ETag": f'"{sha256(bytes(found.body)).hexdigest()[:32]}"'}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        found.headers.update(headers)
        return found

    def _call(self, request: Request, caller: Caller, path: str) -> tuple[Call, str]:
        """Which agent is called, and the rest of the path; an agent that is alone needs no name."""
        agents = exposed(self._app.catalog.of(caller.tenant), self._app.settings.serve)
        agent, rest = _split(path, agents)
        if agent is None and len(agents) == 1 and not rest:
            agent = next(iter(agents))
        return Call(caller=caller, agent=agents.get(agent or ""), agents=agents, url=_url(request, agent)), rest


async def _readable(request: Request) -> Receive:
    """The body, for readers that take UTF-8 for granted: what is none becomes nothing, which is no JSON either."""
    body = await request.body()
    try:
        body.decode()
    except UnicodeDecodeError:
        body = b""
    pieces = iter([{"type": "http.request", "body": body}])

    async def receive() -> Message:
        return next(pieces, None) or await request.receive()

    return receive


def _split(path: str, agents: Mapping[str, AgentDefinition]) -> tuple[str | None, str]:
    """The longest id that the path begins with, and the rest."""
    inner = path.strip("/")
    fits = [id for id in agents if inner == id or inner.startswith(f"{id}/")]
    agent = max(fits, key=len, default=None)
    return agent, f"/{inner}".removeprefix(f"/{agent}") if agent else f"/{inner}" if inner else ""


def _url(request: Request, agent: str | None) -> str:
    base = f"{request.url.scheme}://{request.headers.get('host', 'localhost')}{PREFIX}"
    return f"{base}/{agent}" if agent else base
