"""The guarded HTTP client: for every request that an agent, a definition or a peer can aim.

`retinue.policy.network` decides. Here each hop is judged as a URL, its name is
looked up once, all addresses are judged, and the connection goes to one of just
those addresses. Credentials stay with their origin, there are no cookies, proxies
of the environment are ignored, and bodies have an end.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from retinue.net.decoding import ENCODINGS, FetchFailed, decoded
from retinue.net.settings import NetworkSettings
from retinue.policy.network import Origin, judge_addresses, judge_redirect, judge_url, parse, same_origin
from retinue.schema.errors import Denied
from retinue.schema.permission import Decision

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks a name up for a port: every address it has."""

_REDIRECTS = {301, 302, 303, 307, 308}
_MOST_HOPS = 5
_TO_ANYBODY = {"accept", "accept-language", "content-type", "user-agent"}
"""Headers that may follow to another origin."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    url: str
    """Where the answer came from, after redirects."""
    onward: str | None = None
    """Where it redirects to, when that was not followed."""


class Streamed(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    body: AsyncGenerator[bytes]
    url: str
    onward: str | None = None


class _Hop(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


class GuardedClient:
    """Use as an async context manager; connections are kept for its lifetime."""

    def __init__(
        self,
        settings: NetworkSettings = NetworkSettings(),  # noqa: B008 - a frozen value
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """
        Args:
            settings: What the operator allows and denies.
            resolve: Looks names up; the system's way by default.
            tls: Which certificates are trusted; the system's by default.
        """
        self._settings = settings
        self._resolve = resolve or system_resolve
        self._tls = tls
        self._pinned: dict[str, Sequence[str]] = {}

    async def __aenter__(self) -> "GuardedClient":
        import aiohttp

        proxy = parse(self._settings.proxy) if self._settings.proxy else ""
        if isinstance(proxy, Origin):
            self._pinned[proxy.host] = await self._resolve(proxy.host, proxy.port)
        connector = aiohttp.TCPConnector(
            resolver=_pinned_resolver(self._pinned), use_dns_cache=False, ssl=self._tls or True
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=15),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int = 5_000_000,
        seconds: float = 30.0,
        approved: Collection[str] = (),
        stay: bool = False,
    ) -> Fetched:
        """Request `url`, following redirects, and read the answer whole.

        Args:
            method: As on the wire.
            url: Judged, as is every redirect.
            headers: Sent to this origin only.
            body: Sent again on a redirect only within the origin.
            max_bytes: Of the body, compressed or not.
            seconds: For everything together.
            approved: URLs that a person approved where the verdict is `ask`.
            stay: A redirect to another host is told in `onward` and not followed.

        Raises:
            Denied: the URL, a redirect or an address may not be reached.
            FetchFailed: no answer, not in time, or too much of it.
        """
        try:
            async with (
                asyncio.timeout(seconds),
                self.stream(
                    method, url, headers=headers, body=body, max_bytes=max_bytes, approved=approved, stay=stay
                ) as answer,
            ):
                whole = b"".join([piece async for piece in answer.body])
        except TimeoutError:
            raise FetchFailed(f"{_host(url)} did not answer completely within {seconds:g} s") from None
        return Fetched(status=answer.status, headers=answer.headers, body=whole, url=answer.url, onward=answer.onward)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int | None = None,
        approved: Collection[str] = (),
        stay: bool = False,
    ) -> AsyncGenerator[Streamed]:
        """As `fetch`, but the body comes piece by piece and the caller keeps the time."""
        hop = _Hop(method=method, url=url, headers=headers or {}, body=body)
        decision = judge_url(url, allow=self._settings.hosts)
        for _ in range(_MOST_HOPS + 1):
            _permit(decision, hop.url, approved)
            async with self._request(hop) as response:
                target = _redirected(response, hop.url)
                if target is None or (stay and _site(target) != _site(url)):
                    encoding = response.headers.get("Content-Encoding", "")
                    yield Streamed(
                        status=response.status,
                        headers={name.lower(): value for name, value in response.headers.items()},
                        body=decoded(_pieces(response, hop.url), encoding, max_bytes),
                        url=hop.url,
                        onward=target,
                    )
                    return
                decision = judge_redirect(hop.url, target, allow=self._settings.hosts)
                hop = _following(hop, target, response.status)
        raise FetchFailed(f"{_host(url)} redirects more than {_MOST_HOPS} times")

    async def check(self, url: str) -> Decision:
        """The verdict on a URL that is to be kept: as it is written, and where it leads now."""
        decision = judge_url(url, allow=self._settings.hosts)
        origin = parse(url)
        if decision.verdict == "deny" or isinstance(origin, str):
            return decision
        try:
            _permit(await self._judged(origin), url, ())
        except Denied as denied:
            return Decision(verdict="deny", reason=denied.message)
        return decision

    @asynccontextmanager
    async def _request(self, hop: _Hop) -> "AsyncGenerator[aiohttp.ClientResponse]":
        import aiohttp
        from yarl import URL

        origin = parse(hop.url)
        if isinstance(origin, str):
            raise Denied(f"{hop.url}: {origin}")
        _permit(await self._judged(origin), hop.url, ())
        headers = {"User-Agent": self._settings.user_agent, **hop.headers, "Accept-Encoding": ENCODINGS}
        try:
            async with self._session.request(
                hop.method,
                URL(_spelled(hop.url, origin), encoded=True),
                headers=headers,
                data=hop.body,
                allow_redirects=False,
                proxy=self._settings.proxy,
            ) as response:
                yield response
        except aiohttp.ClientConnectorCertificateError as error:
            raise FetchFailed(f"{origin.host} has a certificate that is not valid for it: {error}") from None
        except aiohttp.ClientError as error:
            raise FetchFailed(f"{origin.host} could not be reached or broke off: {error}") from None

    async def _judged(self, origin: Origin) -> Decision:
        """Look the host up, judge every answer, and pin what may be connected to."""
        if self._settings.denies(origin.host):
            return Decision(verdict="deny", reason=f"{origin.host} is denied by network.deny")
        if ":" in origin.host or re.fullmatch(r"[0-9.]+", origin.host):
            addresses: Sequence[str] = [origin.host]
        else:
            try:
                addresses = await self._resolve(origin.host, origin.port)
            except OSError as error:
                raise FetchFailed(f"{origin.host} could not be looked up: {error.strerror or error}") from None
        decision = judge_addresses(origin.host, origin.port, addresses, allow=self._settings.hosts)
        if decision.verdict == "allow":
            self._pinned[origin.host] = addresses
        return decision


async def system_resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _pinned_resolver(pinned: Mapping[str, Sequence[str]]) -> "AbstractResolver":
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        """Answers with what was judged, and knows nothing else."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            del family
            if host not in pinned:
                raise OSError(f"{host} was not judged")
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in pinned[host]
            ]

        async def close(self) -> None:
            return None

    return Pinned()


def _permit(decision: Decision, url: str, approved: Collection[str]) -> None:
    if decision.verdict == "allow" or (decision.verdict == "ask" and url in approved):
        return
    needs = "needs a person's approval" if decision.verdict == "ask" else "may not be reached"
    raise Denied(f"{url} {needs}: {decision.reason}")


async def _pieces(response: "aiohttp.ClientResponse", url: str) -> AsyncGenerator[bytes]:
    import aiohttp

    try:
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise FetchFailed(f"{_host(url)} broke off in the middle of its answer: {error}") from None


def _redirected(response: "aiohttp.ClientResponse", url: str) -> str | None:
    location = response.headers.get("Location")
    return urljoin(url, location) if response.status in _REDIRECTS and location else None


def _following(hop: _Hop, target: str, status: int) -> _Hop:
    """The next request: what must not leave the origin stays behind."""
    keeps_body = status in (307, 308)
    if same_origin(hop.url, target):
        headers = hop.headers
    else:
        headers = {name: value for name, value in hop.headers.items() if name.lower() in _TO_ANYBODY}
        if keeps_body and hop.body is not None:
            raise Denied(f"{hop.url} wants the request's body sent on to {_host(target)}, another origin")
    if keeps_body or hop.method in ("GET", "HEAD"):
        return _Hop(method=hop.method, url=target, headers=headers, body=hop.body)
    return _Hop(method="GET", url=target, headers=headers, body=None)


def _spelled(url: str, origin: Origin) -> str:
    """The URL with its host in the one spelling that was judged."""
    rest = re.sub(r"^[^:/?#]+://[^/?#]*", "", url).partition("#")[0]
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    path = rest if rest.startswith("/") else f"/{rest}"
    return f"{origin.scheme}://{host}:{origin.port}{_quoted(path)}"


def _quoted(path: str) -> str:
    return re.sub(r"[^\x21-\x7e]", lambda c: "".join(f"%{b:02X}" for b in c[0].encode()), path)


def _site(url: str) -> str:
    return _host(url).removeprefix("www.")


def _host(url: str) -> str:
    origin = parse(url)
    return url if isinstance(origin, str) else origin.host
