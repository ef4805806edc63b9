"""The SDK's HTTP requests through the guarded client: each is judged, and goes where it was judged to go."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import httpx

from retinue.net.client import GuardedClient
from retinue.net.decoding import FetchFailed
from retinue.schema.errors import Denied

_HOP = frozenset(
    ("host", "accept-encoding", "connection", "content-length", "transfer-encoding", "content-encoding", "user-agent")
)
"""Headers that belong to one connection; the guarded client writes its own."""


class GuardedTransport(httpx.AsyncBaseTransport):
    def __init__(self, client: GuardedClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        held = AsyncExitStack()
        try:
            answer = await held.enter_async_context(
                self._client.stream(
                    request.method,
                    str(request.url),
                    headers={name: value for name, value in request.headers.items() if name.lower() not in _HOP},
                    body=await request.aread() or None,
                    stay=True,
                )
            )
        except Denied as error:
            raise httpx.UnsupportedProtocol(str(error), request=request) from error
        except FetchFailed as error:
            raise httpx.ConnectError(str(error), request=request) from error
        headers = [(name, value) for name, value in answer.headers.items() if name not in _HOP]
        return httpx.Response(answer.status, headers=headers, stream=_Body(answer.body, held), request=request)


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes], held: AsyncExitStack) -> None:
        self._pieces = pieces
        self._held = held

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces:
                yield piece
        except (FetchFailed, aiohttp.ClientError) as error:
            raise httpx.ReadError(str(error)) from error

    async def aclose(self) -> None:
        await self._held.aclose()
