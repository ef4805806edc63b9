"""Sends requests to providers and gives back bytes; the only file of `models` that knows the HTTP client.

Leaving `post` before the end, by an exception or a cancellation, closes the
connection at once, so that the provider stops working. Nothing is retried here,
no redirect is followed, and the environment's proxies are ignored. Errors name the
host and never a header.
"""

import asyncio
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

from retinue.schema.errors import ModelError

if TYPE_CHECKING:
    from typing import Self

    import aiohttp

LARGEST_ANSWER = 64 * 1024 * 1024
_CONNECTIONS = 4096
_KEPT_ALIVE = 30.0
_LARGE_BODY = 1024 * 1024
_BREATH = 0.03
_QUICK_READS = 4
_SMALL_READ = 8192
_FIXED_HEADERS = {
    "Content-Type": "application/json",
    # Compressing a stream makes servers hold it back, and an answer is small.
    "Accept-Encoding": "identity",
    "User-Agent": "retinue",
}


class Response:
    """An answer whose headers have come; its body is read piece by piece, or what is left of it whole."""

    def __init__(self, response: "aiohttp.ClientResponse", url: str) -> None:
        self._response = response
        self._content = response.content
        self._url = url
        self._size = 0
        self._quick = 0
        self._time = asyncio.get_running_loop().time
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        """Looked up without regard to case."""
        self.is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        # A connection whose answer was read to the end is back in the pool by now.
        self._response.close()

    async def read(self) -> bytes:
        """What has arrived since the last read, as soon as anything has; empty at the end.

        A stream of many small pieces is read every `_BREATH` seconds instead: waking
        up for each piece costs several times what reading it does.
        """
        try:
            if self._quick > _QUICK_READS:
                await self._breathe()
            began = self._time()
            read = await self._content.readany()
        except Exception as error:
            failure = _failure(self._url, error)
        else:
            self._size += len(read)
            hurried = self.is_stream and len(read) < _SMALL_READ and self._time() - began < _BREATH
            self._quick = self._quick + 1 if hurried else 0
            if self._size <= LARGEST_ANSWER:
                return read
            failure = ModelError(f"the answer of {host_of(self._url)} is larger than {LARGEST_ANSWER} bytes")
        raise failure

    async def _breathe(self) -> None:
        """Let the kernel gather what comes meanwhile."""
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if transport is None or transport.is_closing():
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(_BREATH)
        finally:
            transport.resume_reading()

    async def rest(self, limit: int = LARGEST_ANSWER) -> bytes:
        """Everything up to the end, or up to the first read that passes `limit`."""
        found: list[bytes] = []
        while self._size < limit and (read := await self.read()):
            found.append(read)
        return b"".join(found)


class Transport:
    """One pool of connections, opened at the first request.

    Args:
        proxy: The only proxy that is ever used.
    """

    def __init__(self, *, proxy: str | None = None, connect_timeout: float = 15.0) -> None:
        self._proxy = proxy
        self._connect_timeout = connect_timeout
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    async def post(self, url: str, *, headers: Mapping[str, str], body: bytes, idle_timeout: float) -> Response:
        """Send `body` and wait for the answer's headers.

        Args:
            idle_timeout: The longest wait for the next byte, the first included.

        Raises:
            ModelError: transient, when the connection fails or falls silent.
        """
        try:
            response = await self._opened().post(
                url,
                data=body if len(body) < _LARGE_BODY else io.BytesIO(body),
                headers=headers,
                timeout=self._timeout(idle_timeout),
                allow_redirects=False,
                proxy=self._proxy,
            )
        except Exception as error:
            failure = _failure(url, error)
        else:
            return Response(response, url)
        raise failure

    async def close(self) -> None:
        """Close every connection; the next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _timeout(self, idle: float) -> "aiohttp.ClientTimeout":
        import aiohttp

        if idle not in self._timeouts:
            self._timeouts[idle] = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout, sock_read=idle)
        return self._timeouts[idle]

    def _opened(self) -> "aiohttp.ClientSession":
        import aiohttp

        loop = asyncio.get_running_loop()
        # A sync facade may run each call in a loop of its own.
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEPT_ALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_FIXED_HEADERS,
            )
        return self._session


def _failure(url: str, error: Exception) -> ModelError:
    """Raised outside the handler of `error`, which may hold the request's headers and so the key."""
    import aiohttp

    host = host_of(url)
    match error:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return ModelError(f"{host!r} is not a place that requests can be sent to", hint="check base_url")
        case aiohttp.ClientConnectorCertificateError():
            return ModelError(f"the certificate of {host} is not valid for it")
        case TimeoutError():
            return ModelError(f"{host} did not answer in time", transient=True)
        case aiohttp.ClientResponseError():
            return ModelError(f"{host} does not speak HTTP as expected: {error.message}", transient=True)
        case aiohttp.ClientError() | OSError():
            reason = str(error) or type(error).__name__
            return ModelError(f"the connection to {host} failed: {reason}", transient=True)
        case _:
            raise error


def host_of(url: str) -> str:
    """The host and port of a URL, without what may stand before them."""
    return url.split("://", 1)[-1].split("/", 1)[0].rsplit("@", 1)[-1]
