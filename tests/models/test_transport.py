"""What the transport promises, against real sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from retinue.models import transport as module
from retinue.models.transport import Transport, host_of
from retinue.schema.errors import ModelError

Serve = Callable[..., Awaitable[tuple[str, list[bytes]]]]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    made = Transport()
    yield made
    await made.close()


class Watched:
    """A server that notices when its peer goes away."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self.connections = 0


@asynccontextmanager
async def watched(say: bytes) -> AsyncGenerator[Watched]:
    state = Watched()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(say)
        state.asked.set()
        if await reader.read() == b"":
            state.gone.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield state


async def ask(transport: Transport, url: str, *, idle_timeout: float = 5.0) -> bytes:
    with await transport.post(url, headers={}, body=b"{}", idle_timeout=idle_timeout) as response:
        return await response.rest()


@pytest.mark.spec("RUN-12")
@pytest.mark.parametrize(
    "said", [b"", STREAM_HEAD, STREAM_HEAD + b"5\r\nhello\r\n"], ids=["nothing", "headers", "text"]
)
async def test_cancelling_closes_the_connection_at_once(transport: Transport, said: bytes) -> None:
    async with watched(said) as server:
        request = asyncio.create_task(ask(transport, server.url))
        async with asyncio.timeout(5):
            await server.asked.wait()
            request.cancel()
            await server.gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await request


@pytest.mark.spec("RUN-12")
async def test_cancelling_between_the_pieces_of_a_quick_stream_closes_the_connection_too(transport: Transport) -> None:
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(STREAM_HEAD)
        closed = asyncio.ensure_future(reader.read())
        while not closed.done():
            writer.write(b"1\r\nx\r\n")
            await asyncio.wait({closed}, timeout=0.001)
        closed.exception()
        gone.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    many = asyncio.Event()

    async def listen() -> None:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with await transport.post(url, headers={}, body=b"{}", idle_timeout=5) as response:
            for _ in range(10):
                await response.read()
            many.set()
            while await response.read():
                pass

    async with server, asyncio.timeout(5):
        request = asyncio.create_task(listen())
        await many.wait()
        request.cancel()
        await gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_many_small_pieces_are_read_in_few_reads(transport: Transport, serve: Serve) -> None:
    pieces = [b"64\r\n" + b"%099d\n" % number + b"\r\n" for number in range(300)]
    url, _ = await serve(STREAM_HEAD, *pieces, b"0\r\n\r\n")

    reads: list[bytes] = []
    with await transport.post(url, headers={}, body=b"{}", idle_timeout=5) as response:
        while read := await response.read():
            reads.append(read)

    assert b"".join(reads) == b"".join(b"%099d\n" % number for number in range(300))
    assert len(reads) < 50


async def test_an_error_of_the_reader_closes_the_connection_too(transport: Transport) -> None:
    async with watched(STREAM_HEAD + b"5\r\nhello\r\n") as server:
        response = await transport.post(server.url, headers={}, body=b"{}", idle_timeout=5)
        with pytest.raises(ZeroDivisionError), response:
            assert await response.read() == b"hello"
            raise ZeroDivisionError
        async with asyncio.timeout(5):
            await server.gone.wait()


async def test_an_answer_read_to_its_end_leaves_the_connection_for_the_next(transport: Transport) -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while not reader.at_eof():
            try:
                await reader.readuntil(b"\r\n\r\n{}")
            except asyncio.IncompleteReadError:
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert [await ask(transport, url) for _ in range(3)] == [b"ok"] * 3
        await transport.close()

    assert connections == 1


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    "said", [b"", STREAM_HEAD, STREAM_HEAD + b"5\r\nhello\r\n"], ids=["nothing", "headers", "text"]
)
async def test_silence_is_a_transient_failure(transport: Transport, said: bytes) -> None:
    async with watched(said) as server:
        with pytest.raises(ModelError, match="did not answer in time") as caught:
            await ask(transport, server.url, idle_timeout=0.05)

    assert caught.value.transient


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    "said", [b"", STREAM_HEAD + b"5\r\nhello\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"]
)
async def test_a_cut_connection_is_a_transient_failure(transport: Transport, serve: Serve, said: bytes) -> None:
    url, _ = await serve(said)

    with pytest.raises(ModelError, match=r"the connection to 127\.0\.0\.1") as caught:
        await ask(transport, url)

    assert caught.value.transient


async def test_a_refused_connection_is_a_transient_failure(transport: Transport) -> None:
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await server.wait_closed()

    with pytest.raises(ModelError) as caught:
        await ask(transport, url)

    assert caught.value.transient


async def test_what_is_not_http_is_said_to_be_so_without_the_key(transport: Transport, serve: Serve) -> None:
    url, _ = await serve(b"SSH-2.0-OpenSSH_9.2\r\n")

    with pytest.raises(ModelError) as caught:
        await transport.post(url, headers={"x-api-key": "hush"}, body=b"{}", idle_timeout=5)

    assert "hush" not in repr(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


async def test_a_url_that_is_none_is_no_reason_to_try_again(transport: Transport) -> None:
    with pytest.raises(ModelError, match="not a place") as caught:
        await ask(transport, "nowhere")

    assert not caught.value.transient


async def test_redirects_are_not_followed(transport: Transport, serve: Serve) -> None:
    other, seen = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    url, _ = await serve(b"HTTP/1.1 307 See\r\nContent-Length: 0\r\nLocation: " + other.encode() + b"\r\n\r\n")

    with await transport.post(url, headers={}, body=b"{}", idle_timeout=5) as response:
        assert response.status == 307
    assert seen == []


async def test_proxies_of_the_environment_are_ignored(
    transport: Transport, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, seen = await serve(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    url, _ = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    assert await ask(transport, url) == b"ok"
    assert seen == []


async def test_a_configured_proxy_is_used(serve: Serve) -> None:
    proxy, seen = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    transport = Transport(proxy=proxy)

    assert await ask(transport, "http://models.example/v1") == b"ok"
    assert seen[0].startswith(b"POST http://models.example/v1 ")
    await transport.close()


async def test_an_answer_without_end_is_refused(transport: Transport, serve: Serve) -> None:
    size = 1024 * 1024
    pieces = [b"%x\r\n%b\r\n" % (size, b"x" * size)] * (module.LARGEST_ANSWER // size + 1)
    url, _ = await serve(STREAM_HEAD, *pieces)

    with (
        await transport.post(url, headers={}, body=b"{}", idle_timeout=5) as response,
        pytest.raises(ModelError, match="larger than"),
    ):
        while await response.read():
            pass


async def test_a_large_request_is_sent_whole(transport: Transport, serve: Serve) -> None:
    url, seen = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    body = b'"' + b"x" * 3_000_000 + b'"'

    with await transport.post(url, headers={"Authorization": "Bearer k"}, body=body, idle_timeout=5) as response:
        assert await response.rest() == b"ok"
    head, _, sent = seen[0].partition(b"\r\n\r\n")
    assert sent == body
    assert b"Authorization: Bearer k" in head
    assert b"Content-Type: application/json" in head


def test_a_transport_serves_one_event_loop_after_another() -> None:
    transport = Transport()

    async def once() -> bytes:
        server = await asyncio.start_server(_ok, "127.0.0.1", 0)
        async with server:
            try:
                return await ask(transport, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            finally:
                await transport.close()

    assert [asyncio.run(once()) for _ in range(2)] == [b"ok", b"ok"]


async def _ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"{}")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    writer.close()


def test_a_host_is_shown_without_what_stands_before_it() -> None:
    assert host_of("https://user:secret@models.example:8443/v1") == "models.example:8443"
