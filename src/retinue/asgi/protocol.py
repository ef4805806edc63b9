"""How bytes become requests: httptools' parser, which is written in C, with a bound on what comes before a body."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 128 * 1024
"""Bytes. The place of a reader in a large tree is part of a request's head."""


class BoundedProtocol(HttpToolsProtocol):
    _head: int | None = None
    """Bytes of the head that is being read."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is None:
            return
        self._head += len(data)
        if self._head > LONGEST_HEAD:
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()
