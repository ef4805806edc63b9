"""Both of the SDKs' HTTP libraries through the guarded client, and servers that break off."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from retinue.net.client import GuardedClient
from retinue.net.settings import NetworkSettings
from retinue.net.transport import guarded_transport

LIBRARIES = [httpx, httpx2]
BROKEN = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nContent-Encoding: gzip\r\n\r\nno gzip!",
]


@asynccontextmanager
async def answering(data: bytes) -> AsyncGenerator[str]:
    """A server that writes `data` and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def client(library: ModuleType, *allow: str) -> AsyncGenerator[Any]:
    made: Any = library
    async with (
        GuardedClient(NetworkSettings(hosts=frozenset(allow))) as guarded,
        made.AsyncClient(transport=guarded_transport(library, guarded)) as opened,
    ):
        yield opened


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("data", BROKEN)
async def test_an_answer_that_breaks_off_is_an_error_of_the_library(library: Any, data: bytes) -> None:
    async with (
        answering(data) as place,
        client(library, place) as opened,
        opened.stream("GET", f"http://{place}/") as response,
    ):
        with pytest.raises(library.ReadError):
            await response.aread()


@pytest.mark.parametrize("library", LIBRARIES)
async def test_what_is_denied_and_what_is_not_there_differ(library: Any) -> None:
    async with answering(b"") as place, client(library, place, "127.0.0.1:9") as opened:
        with pytest.raises(library.UnsupportedProtocol, match="public"):
            await opened.get("http://127.0.0.1:10/")
        for gone in (place, "127.0.0.1:9"):
            with pytest.raises(library.ConnectError, match=r"127\.0\.0\.1"):
                await opened.get(f"http://{gone}/")


@pytest.mark.parametrize("library", LIBRARIES)
async def test_redirects_to_other_hosts_are_left_to_the_caller(library: Any) -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    async with answering(moved) as place, client(library, place) as opened:
        answer = await opened.get(f"http://{place}/")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://elsewhere.example/")
