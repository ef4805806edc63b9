"""Opens connections: which program is started how, or which URL is reached, and the SDK's client on top.

Imports the SDK, which costs more than the rest of Retinue together: load this when a server is needed.
"""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2
from mcp import Client
from mcp.client import IncomingMessage, Transport
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import Implementation

from retinue.net.transport import guarded_transport
from retinue.remotes.mcp.config import ServerConfig
from retinue.remotes.mcp.place import Place, isolation
from retinue.sandbox.bubblewrap import Box, Sandbox
from retinue.sandbox.limits import Limits, limited

_KEPT = ("LANG", "LC_ALL", "TZ", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV")
_IN_SANDBOX = {
    "TMPDIR": "/tmp",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "npm_config_cache": "/tmp/.npm",
    "UV_CACHE_DIR": "/tmp/.uv",
}
_GUARDIAN = Path(__file__).with_name("guardian.py")
_LARGEST_EVENT = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    ended: Callable[[], None]
    """The server's process is gone."""
    message: Callable[[IncomingMessage], None]
    elicitation: ElicitationFnT


async def open_client(config: ServerConfig, place: Place, handlers: Handlers, held: AsyncExitStack) -> Client:
    """A client that has shaken hands; it ends with `held`, and its server with it."""

    async def received(message: IncomingMessage) -> None:
        handlers.message(message)

    client = Client(
        await _http(config, place, held) if config.url else _stdio(config, place, handlers.ended, held),
        message_handler=received,
        elicitation_callback=handlers.elicitation,
        client_info=Implementation(name="retinue", version="1"),
        cache=None,
    )
    return await held.enter_async_context(client)


async def _http(config: ServerConfig, place: Place, held: AsyncExitStack) -> Transport:
    from retinue.remotes.mcp.oauth import auth_of, provider

    headers, auth = dict(config.headers), auth_of(config)
    if auth.type == "bearer":
        headers["Authorization"] = f"Bearer {auth.token}"
    signed = any(name.lower() == "authorization" for name in headers)
    client = httpx2.AsyncClient(
        transport=guarded_transport(httpx2, await place.network(), approved=(config.url,)),
        headers=headers,
        auth=None if signed else provider(config, place.folder / "tokens", place.show),
        timeout=httpx2.Timeout(30.0, read=300.0),
    )
    await held.enter_async_context(client)
    return streamable_http_client(config.url, http_client=client, max_sse_event_size=_LARGEST_EVENT)


def _stdio(config: ServerConfig, place: Place, ended: Callable[[], None], held: AsyncExitStack) -> Transport:
    env = {name: place.environ[name] for name in _KEPT if name in place.environ}
    if isolation(config) == "none":
        argv, folder = [sys.executable, "-I", "-S", str(_GUARDIAN), str(os.getpid()), *config.argv], config.folder
    else:
        argv, folder = _boxed(config, place, held), "/"
        env |= _IN_SANDBOX
    log = held.enter_context(place.log(config).open("w", encoding="utf-8"))
    program = StdioServerParameters(
        command=argv[0], args=argv[1:], env=env | dict(config.env), cwd=folder, encoding_error_handler="replace"
    )
    return _watched(stdio_client(program, errlog=log), ended)


def _boxed(config: ServerConfig, place: Place, held: AsyncExitStack) -> list[str]:
    temporary = place.folder / "tmp" / config.key[:16]
    temporary.mkdir(parents=True, exist_ok=True)
    box = Box(
        workspace=os.path.realpath(config.workspace),
        folder=os.path.realpath(config.folder),
        temporary=str(temporary.resolve()),
        home=place.environ.get("HOME", ""),
        network=config.network,
        readable=config.readable,
        hidden=place.hidden,
    )
    given = {**place.environ, **dict(config.env)}
    path = {"PATH": given["PATH"]} if "PATH" in given else {}
    command = held.enter_context(Sandbox(box)).command(limited(config.argv, Limits(), sandboxed=True), path)
    # All else of the environment comes with the process: in the arguments every user of the machine could read it.
    command.remove("--clearenv")
    return command


@asynccontextmanager
async def _watched(transport: Transport, ended: Callable[[], None]) -> AsyncGenerator[TransportStreams]:
    """`transport`, telling when its server's output ends, also while no request waits for an answer."""
    async with transport as (reading, writing):
        yield _Reading(reading, ended), writing


class _Reading(ReadStream[SessionMessage | Exception]):
    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()
