"""Splits a byte stream into the data of server-sent events.

Works on bytes and on whole reads: a character or a line end may be cut anywhere,
and the usual event (one `data:` line) costs one slice. What the data means is the
reader's business; every provider says the event's name in it too.
"""

from collections.abc import Sequence

from retinue.schema.errors import ModelError

LARGEST_EVENT = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class Splitter:
    """Feed it reads as they come; each gives the events that are whole by now."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._return_held = False
        self._first = True

    def feed(self, read: bytes) -> Sequence[bytes]:
        """Raises `ModelError` when one event grows beyond all reason."""
        if self._return_held or b"\r" in read:
            read = self._newlines(read)
        if not read:
            return ()
        held = self._held
        ended = b"\n\n" in read or (read[0] == 10 and bool(held) and held[-1][-1] == 10)
        held.append(read)
        if not ended:
            self._size += len(read)
            if self._size > LARGEST_EVENT:
                raise ModelError(f"an event of the stream is larger than {LARGEST_EVENT} bytes")
            return ()
        text = b"".join(held)
        if self._first:
            self._first = False
            text = text.removeprefix(_BOM)
        *blocks, rest = text.split(b"\n\n")
        self._held = [rest] if rest else []
        self._size = len(rest)
        return [
            data
            for block in blocks
            if (data := block[6:] if block.startswith(b"data: ") and b"\n" not in block else _data(block)) is not None
        ]

    def finish(self) -> Sequence[bytes]:
        """The last event, when the stream ended without the blank line that ends it.

        Some servers say that they stream and send one JSON object, above all when they fail.
        """
        rest, self._held = b"".join(self._held), []
        data = rest if rest.startswith(b"{") else _data(rest)
        return () if data is None else (data,)

    def _newlines(self, read: bytes) -> bytes:
        """Every line end as one `\\n`; a `\\r` at the end waits, since `\\n` may follow."""
        if self._return_held:
            read = b"\r" + read
        self._return_held = read.endswith(b"\r")
        if self._return_held:
            read = read[:-1]
        return read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(block: bytes) -> bytes | None:
    found: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            found.append(value.removeprefix(b" "))
    return b"\n".join(found) if found else None
