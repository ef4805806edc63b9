"""Reads a response's body within a number of bytes, before and after decompression."""

import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Protocol

from retinue.schema.errors import RetinueError

ENCODINGS = "gzip, deflate"
_STEP = 64 * 1024


class FetchFailed(RetinueError):
    """A request was made, or tried, and gave nothing usable."""

    code = "fetch_failed"


class _Inflates(Protocol):
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


async def decoded(pieces: AsyncIterator[bytes], encoding: str, most: int | None) -> AsyncGenerator[bytes]:
    """The body piece by piece; a bomb is cut while it grows, not after it has grown."""
    inflate = _inflater(encoding)
    size = raw = 0
    async for piece in pieces:
        raw += len(piece)
        _check(raw, most)
        for out in _inflated(inflate, piece, encoding) if inflate else (piece,):
            size += len(out)
            _check(size, most)
            yield out


def _inflated(inflate: _Inflates, piece: bytes, encoding: str) -> Iterator[bytes]:
    try:
        while out := inflate.decompress(piece, _STEP):
            yield out
            piece = inflate.unconsumed_tail
    except zlib.error:
        raise FetchFailed(f"the answer says it is {encoding} and is not") from None


def _check(size: int, most: int | None) -> None:
    if most is not None and size > most:
        raise FetchFailed(f"the answer is larger than {most:,} bytes, so it was cut off")


def _inflater(encoding: str) -> _Inflates | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        case "deflate":
            return zlib.decompressobj()
        case other:
            raise FetchFailed(f"the answer is encoded as {other!r}, which was not asked for")
