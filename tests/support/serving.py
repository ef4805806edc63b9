"""A server in this process, on a free port of loopback, and clients that speak to it as anybody would."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from retinue.app.retinue import Retinue
from retinue.app.settings import ServeSettings, Settings, SettingsFile, Tier
from retinue.asgi.server import Server, listen, open_served
from retinue.models.scripted import ScriptedModels
from retinue.ports.clock import Clock
from retinue.ports.tool import Tool
from retinue.runtime.deps import Tuning
from retinue.schema.agent import AgentDefinition
from retinue.testing.harness import QUICK, Scripts
from retinue.web.served import Served


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Event(msgspec.Struct, frozen=True):
    id: str
    kind: str
    data: Any


@dataclass(slots=True)
class Client:
    """One key's requests."""

    session: aiohttp.ClientSession
    token: str

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if body is not None:
            data = msgspec.json.encode(body)
            sent.setdefault("Content-Type", "application/json")
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        async with self.session.request(method, path, data=data, headers=sent) as response:
            said = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, said, await response.read())

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return await self.ask("POST", path, body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    @asynccontextmanager
    async def stream(self, path: str, last: str = "") -> AsyncGenerator[AsyncIterator[Event]]:
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Last-Event-ID": last} if last else {})
        async with self.session.get(path, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield events(response)


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """The events of a stream until it ends."""
    id, kind = "", "message"
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            id = value
        elif name == "event":
            kind = value
        elif name == "data":
            yield Event(id if kind not in ("delta", "reconnect") else "", kind, msgspec.json.decode(value))
            kind = "message"


@dataclass(slots=True)
class Api:
    url: str
    served: Served
    server: Server
    done: "asyncio.Task[None]"
    sessions: list[aiohttp.ClientSession] = field(default_factory=list[aiohttp.ClientSession])

    @property
    def app(self) -> Retinue:
        return self.served.app

    async def client(self, *scopes: str, tenant: str = "default") -> Client:
        made = await self.served.keyring.create("test", scopes or ("admin",), tenant=tenant)
        return self.with_token(made.token)

    def with_token(self, token: str) -> Client:
        session = aiohttp.ClientSession(self.url, read_bufsize=2**20)
        self.sessions.append(session)
        return Client(session, token)

    async def stop(self) -> None:
        self.server.should_exit = True
        await self.done


@asynccontextmanager
async def serving(
    folder: Path,
    scripts: Scripts,
    *,
    agents: Iterable[AgentDefinition] = (),
    tools: Iterable[Tool] = (),
    serve: ServeSettings | None = None,
    settings: SettingsFile | None = None,
    environ: dict[str, str] | None = None,
    clock: Clock | None = None,
    tuning: Tuning = QUICK,
) -> AsyncGenerator[Api]:
    """A server on a folder of its own; serving it again is a restart."""
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir(parents=True, exist_ok=True)
    workspace.mkdir(parents=True, exist_ok=True)
    user = Tier(name="user", path=home / "retinue.toml", settings=settings or SettingsFile())
    wanted = (
        serve or (settings.serve if settings and settings.serve else None) or ServeSettings(rate=10_000, burst=10_000)
    )
    user = msgspec.structs.replace(user, settings=msgspec.structs.replace(user.settings, serve=wanted))
    async with (
        Retinue(
            agents=agents,
            tools=tools,
            models=scripts if isinstance(scripts, ScriptedModels) else ScriptedModels(scripts),
            settings=Settings(home=home, root=workspace, user=user),
            data_dir=home,
            workspace=workspace,
            environ=environ or {},
            clock=clock,
            tuning=tuning,
        ) as app,
        open_served(app, wanted) as served,
    ):
        bound = listen("127.0.0.1", 0)
        server = Server(served)
        api = Api(
            url=f"http://127.0.0.1:{bound.getsockname()[1]}",
            served=served,
            server=server,
            done=asyncio.create_task(server.serve([bound])),
        )
        try:
            yield api
        finally:
            for session in api.sessions:
                await session.close()
            await api.stop()
