"""The A2A surface on a real port of this machine, in the test's event loop."""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from starlette.requests import Request

from retinue.a2a_server.callers import Caller
from retinue.a2a_server.surface import A2aSurface
from retinue.app.retinue import Retinue
from retinue.app.settings import NetworkSection, ServeSettings, Settings, SettingsFile, Tier
from retinue.models.scripted import ScriptedModels
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import DEFAULT_TENANT, AgentId, Tenant
from retinue.testing.harness import QUICK, Scripts
from retinue.web.problem import Refused

SERVE = Path(__file__).parents[2] / "examples" / "a2a-compat" / "serve.py"
TOKENS: Mapping[str, Caller] = {
    "alice": Caller(tenant=DEFAULT_TENANT, name="alice"),
    "bob": Caller(tenant=DEFAULT_TENANT, name="bob"),
    "eve": Caller(tenant=Tenant("other"), name="alice"),
}


async def by_token(request: Request) -> Caller:
    """Each token is its holder's name."""
    caller = TOKENS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
    if caller is None:
        raise Refused(401, "unauthorized", "no good token", headers={"WWW-Authenticate": "Bearer"})
    return caller


@dataclass
class Server:
    app: Retinue
    url: str
    port: int
    held: AsyncExitStack

    async def http(self, token: str = "alice", *, version: str = "1.0") -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": version}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=30)
        return await self.held.enter_async_context(client)

    async def client(
        self, agent: str, *, token: str = "alice", binding: str = "JSONRPC", streaming: bool = True
    ) -> Client:
        http = await self.http(token)
        card = await A2ACardResolver(http, f"{self.url}/a2a/{agent}").get_agent_card()
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[binding],
            use_client_preference=True,
            streaming=streaming,
        )
        return ClientFactory(config).create(card)


def agent(name: str, **fields: object) -> AgentDefinition:
    given = {"description": f"The agent {name}.", "exposed": True, "prompt": f"You are {name}.", **fields}
    return AgentDefinition(id=AgentId(name), name=name, **given)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def listening(app: object) -> AsyncGenerator[int]:
    """An ASGI app on a free port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        config = uvicorn.Config(app, lifespan="off", log_level="warning")  # pyright: ignore[reportArgumentType]
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
        taken.listen()  # whoever comes before the server accepts is kept waiting, not refused
        serving = asyncio.create_task(server.serve(sockets=[taken]))
        try:
            yield port
        finally:
            server.should_exit = server.force_exit = True
            await serving


@asynccontextmanager
async def a2a_server(
    folder: Path,
    scripts: Scripts,
    *agents: AgentDefinition,
    serve: ServeSettings = ServeSettings(),  # noqa: B008 - a frozen value
    allow: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    remote_env: Mapping[str, tuple[str, ...]] | None = None,
) -> AsyncGenerator[Server]:
    """An app whose data lies in `folder`, and its A2A surface on a free port."""
    home = folder / "home"
    file = SettingsFile(serve=serve, network=NetworkSection(allow=allow), remote_env=remote_env or {})
    settings = Settings(home=home, root=folder, user=Tier(name="user", settings=file))
    async with (
        Retinue(
            agents=agents,
            models=ScriptedModels(scripts) if not isinstance(scripts, ScriptedModels) else scripts,
            settings=settings,
            data_dir=home,
            workspace=folder,
            environ=environ or {},
            tuning=QUICK,
        ) as app,
        A2aSurface(app, by_token) as surface,
        listening(surface) as port,
        AsyncExitStack() as held,
    ):
        yield Server(app, f"http://127.0.0.1:{port}", port, held)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@asynccontextmanager
async def a2a_compat() -> AsyncGenerator[str]:
    """The example for the official compatibility kit, in a process of its own; its URL once it answers."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, str(SERVE), "--port", str(port), stdout=-1)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        url = f"http://127.0.0.1:{port}"
        transport = httpx.AsyncHTTPTransport(retries=8)  # it says where it is just before it listens
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get(f"{url}/.well-known/agent-card.json")
        yield url
    finally:
        process.terminate()
        await process.communicate()
