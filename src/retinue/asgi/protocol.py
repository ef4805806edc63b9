"""How bytes become requests: httptools' parser, which is written in C, with bounds on what comes before a body."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 128 * 1024
"""Bytes. The place of a reader in a large tree is part of a request's head."""


def bounded(seconds: float) -> "type[BoundedProtocol]":
    """A protocol that waits so long for the head of a request, and for no longer."""
    return type("BoundedProtocol", (BoundedProtocol,), {"patience": seconds})


class BoundedProtocol(HttpToolsProtocol):
    patience: float
    _head = 0
    """Bytes since the request began."""
    _slow: asyncio.TimerHandle | None = None
    """Runs while a head is wanted: from the connection on, and from the first byte of each further request."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._slow = self.loop.call_later(self.patience, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._slow is None:
            return
        self._head += len(data)
        if self._head > LONGEST_HEAD:
            self._stop()
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        if self._slow is None:
            self._head = 0
            self._slow = self.loop.call_later(self.patience, self.transport.close)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop()
        super().on_headers_complete()

    def _stop(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
