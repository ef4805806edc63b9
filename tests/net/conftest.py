"""Real servers on loopback: HTTP, HTTPS under a CA of the test's own, and a DNS server with a client for it."""

import asyncio
import datetime
import gzip
import ipaddress
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

A, AAAA = 1, 28


class Dns(asyncio.DatagramProtocol):
    """Answers A and AAAA questions from lists; each question takes the next list, the last one stays."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        self.transport: asyncio.DatagramTransport | None = None

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, end = _name(data, 12)
        kind = struct.unpack_from(">H", data, end)[0]
        self.asked.append(f"{name} {'A' if kind == A else 'AAAA'}")
        lists = self.names.get(name, [[]])
        turn = sum(1 for asked in self.asked if asked == self.asked[-1]) - 1
        wanted = [ipaddress.ip_address(text) for text in lists[min(turn, len(lists) - 1)]]
        found = [a.packed for a in wanted if a.version == (4 if kind == A else 6)]
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(f)) + f for f in found)
        assert self.transport is not None
        self.transport.sendto(head + data[12 : end + 4] + records, addr)


class DnsClient(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        del addr
        self.answer.set_result(data)


def _name(data: bytes, place: int) -> tuple[str, int]:
    labels: list[str] = []
    while data[place]:
        labels.append(data[place + 1 : place + 1 + data[place]].decode())
        place += 1 + data[place]
    return ".".join(labels), place + 1


class Resolver:
    """Looks names up by asking the DNS server over UDP, as a stub resolver does."""

    def __init__(self, dns: Dns, port: int) -> None:
        self.dns = dns
        self._port = port

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        return [*await self._ask(host, A), *await self._ask(host, AAAA)]

    async def _ask(self, host: str, kind: int) -> list[str]:
        loop = asyncio.get_running_loop()
        transport, client = await loop.create_datagram_endpoint(DnsClient, remote_addr=("127.0.0.1", self._port))
        try:
            labels = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
            transport.sendto(struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1))
            data = await asyncio.wait_for(client.answer, 5)
        finally:
            transport.close()
        count = struct.unpack_from(">H", data, 6)[0]
        place = _name(data, 12)[1] + 4
        found: list[str] = []
        for _ in range(count):
            size = struct.unpack_from(">H", data, place + 10)[0]
            found.append(str(ipaddress.ip_address(data[place + 12 : place + 12 + size])))
            place += 12 + size
        return found


@pytest.fixture
async def resolver() -> AsyncIterator[Resolver]:
    loop = asyncio.get_running_loop()
    transport, dns = await loop.create_datagram_endpoint(Dns, local_addr=("127.0.0.1", 0))
    dns.transport = transport
    yield Resolver(dns, transport.get_extra_info("sockname")[1])
    transport.close()


class Server:
    """A web server whose requests are kept; `/to?url` redirects, `/bomb` and `/endless` never stop growing."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes, str]] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        peer = request.transport.get_extra_info("sockname")[0] if request.transport else ""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((f"{request.method} {request.path_qs}", headers, await request.read(), peer))
        paths: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
            "/to": _redirect,
            "/loop": _loop,
            "/bomb": _bomb,
            "/endless": _endless,
            "/slow": _slow,
        }
        if special := paths.get(request.path):
            return await special(request)
        return web.Response(text=f"hello from {request.path}", headers={"Set-Cookie": "session=1"})


async def _redirect(request: web.Request) -> web.StreamResponse:
    status = int(request.query.get("status", "302"))
    return web.Response(status=status, headers={"Location": request.query["url"], "Set-Cookie": "session=1"})


async def _loop(request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": request.path})


async def _bomb(request: web.Request) -> web.StreamResponse:
    del request
    return web.Response(body=gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(bytes(65_536))
    except ConnectionResetError:
        return response


async def _slow(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"drop")
    await asyncio.sleep(60)
    return response


async def started(tls: ssl.SSLContext | None = None) -> tuple[Server, web.AppRunner]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.port = runner.addresses[0][1]
    return server, runner


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server, runner = await started()
    yield server
    await runner.cleanup()


class Authority:
    """A certificate authority of the test's own, and a certificate for `secure.test`."""

    def __init__(self, folder: Path) -> None:
        key, self._name = ec.generate_private_key(ec.SECP256R1()), _subject("test authority")
        authority = _signed(self._name, self._name, key, key, x509.BasicConstraints(ca=True, path_length=None))
        leaf_key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName("secure.test")])
        leaf = _signed(_subject("secure.test"), self._name, leaf_key, key, names)
        private = leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / "leaf.pem").write_bytes(private + leaf.public_bytes(serialization.Encoding.PEM))
        self.serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.serving.load_cert_chain(folder / "leaf.pem")
        self.trusting = ssl.create_default_context(cadata=authority.public_bytes(serialization.Encoding.PEM).decode())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1)).add_extension(extension, critical=True)
    return builder.sign(signer, hashes.SHA256())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secure(authority: Authority) -> AsyncIterator[Server]:
    server, runner = await started(authority.serving)
    yield server
    await runner.cleanup()
