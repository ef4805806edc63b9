"""A library's HTTP requests through the guarded client: each is judged, and goes where it was judged to go.

Boundary code: httpx and httpx2 are one library under two names, one SDK wants the first and another the second.
"""

# pyright: reportUntypedBaseClass=false

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

from retinue.net.client import GuardedClient, Streamed
from retinue.net.decoding import FetchFailed
from retinue.schema.errors import Denied

_HOP = frozenset(
    ("host", "accept-encoding", "connection", "content-length", "transfer-encoding", "content-encoding", "user-agent")
)
"""Headers that belong to one connection; the guarded client writes its own."""


def guarded_transport(httpx: ModuleType, client: GuardedClient, approved: Collection[str] = ()) -> Any:
    """An `AsyncBaseTransport` of `httpx`. What is denied raises its `UnsupportedProtocol`, what fails its other errors.

    Args:
        httpx: The library.
        client: Whose settings decide.
        approved: URLs that the operator wrote down, where the verdict would be to ask.
    """
    library: Any = httpx

    class Body(library.AsyncByteStream):
        def __init__(self, answer: Streamed, held: AsyncExitStack) -> None:
            self._answer, self._held = answer, held

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in self._answer.body:
                    yield piece
            except FetchFailed as error:
                raise library.ReadError(str(error)) from error

        async def aclose(self) -> None:
            await self._held.aclose()

    class Transport(library.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
            body, held = await request.aread() or None, AsyncExitStack()
            asked = client.stream(
                request.method, str(request.url), headers=headers, body=body, approved=approved, stay=True
            )
            try:
                answer = await held.enter_async_context(asked)
            except Denied as error:
                raise library.UnsupportedProtocol(str(error), request=request) from error
            except FetchFailed as error:
                raise library.ConnectError(str(error), request=request) from error
            kept = [(name, value) for name, value in answer.headers.items() if name not in _HOP]
            return library.Response(answer.status, headers=kept, stream=Body(answer, held), request=request)

    return Transport()
