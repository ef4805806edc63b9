"""The door of every surface: Host, Origin, the size of a body, headers that browsers want, and no leaking of bugs.

Who asks and what they may do is `retinue.web.auth`.
"""

import asyncio
import logging
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retinue.app.settings import ServeSettings
from retinue.schema.errors import RetinueError
from retinue.web.problem import Refused, answer, internal
from retinue.web.served import Served

log = logging.getLogger("retinue.web")
access = logging.getLogger("retinue.access")

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Set unless a surface says otherwise."""


class Guard:
    def __init__(self, app: ASGIApp, served: Served) -> None:
        self._app = app
        self._served = served
        self._hosts = LOOPBACK | {served.settings.host, *served.settings.hosts}
        self._origins = frozenset(origin.rstrip("/") for origin in served.settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no surface speaks WebSocket, and the server opens and closes the app itself
        reply = _Reply(send)
        body = _Body(receive, self._served.settings)
        began = time.perf_counter()
        try:
            self._check(Headers(scope=scope))
            await self._app(scope, body, reply)
        except RetinueError as error:
            if not reply.status:
                await answer(error)(scope, receive, reply)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not reply.status:
                await internal()(scope, receive, reply)
        finally:
            self._count(scope, reply.status, time.perf_counter() - began)

    def _check(self, headers: Headers) -> None:
        host = ", ".join(headers.getlist("host"))
        if _name(host) not in self._hosts:
            hint = "add it to serve.hosts if this server is meant to answer for it"
            raise Refused(421, "host", f"this server does not answer for {host[:100]!r}", hint=hint)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host and origin not in self._origins:
            hint = "add it to serve.origins if pages from there may call"
            raise Refused(403, "origin", f"requests from pages of {origin[:100]!r} are not taken", hint=hint)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._served.settings.max_body:
            raise _too_large(self._served.settings.max_body)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._served.counters["http_requests_total", f'method="{method}",status="{status}"'] += 1
        access.info("%s %s %d %.1f ms", scope["method"], scope["path"], status, seconds * 1000)


class _Reply:
    """Sends, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


class _Body:
    """Receives, up to the limit, and not for ever; then only that the caller left."""

    def __init__(self, receive: Receive, settings: ServeSettings) -> None:
        self._receive = receive
        self._limit, self._patience = settings.max_body, settings.request_seconds
        self._read = 0
        self._complete = False

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._patience):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, "too_slow", f"nothing of the body came for {self._patience:g} s") from None
        self._complete = not message.get("more_body", False)
        self._read += len(message.get("body", b""))
        if self._read > self._limit:
            raise _too_large(self._limit)
        return message


def _too_large(limit: int) -> Refused:
    return Refused(413, "too_large", f"a request may have {limit:,} bytes", hint="serve.max_body sets this")


def _name(host: str) -> str:
    """`[::1]:80` and `::1` are `::1`; a port is no part of a name."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()
