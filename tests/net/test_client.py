"""Every row of the table of requests, against real servers and a real name server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from retinue.net.client import Fetched, GuardedClient
from retinue.net.decoding import FetchFailed
from retinue.net.settings import NetworkSettings
from retinue.policy.network import judge_addresses, judge_url
from retinue.schema.errors import Denied

from .conftest import Authority, Resolver, Server

TABLE = Path(__file__).with_name("network.tsv")


@dataclass
class Net:
    server: Server
    secure: Server
    resolver: Resolver
    authority: Authority

    @property
    def url(self) -> str:
        return f"http://open.test:{self.server.port}"

    @property
    def secure_url(self) -> str:
        return f"https://secure.test:{self.secure.port}"

    async def fetch(
        self, url: str, *, method: str = "GET", allow: tuple[str, ...] = (), approved: bool = False
    ) -> Fetched:
        """As an operator has it who allows the two test servers by name, and nothing else private."""
        hosts = frozenset((f"open.test:{self.server.port}", f"secure.test:{self.secure.port}", *allow))
        settings = NetworkSettings(hosts=hosts)
        headers = {"Authorization": "Bearer secret", "Cookie": "a=b", "X-Api-Key": "secret", "Accept": "text/html"}
        async with GuardedClient(settings, resolve=self.resolver, tls=self.authority.trusting) as client:
            seconds = 0.4 if "slow" in url else 10.0
            return await client.fetch(
                method,
                url,
                headers=headers,
                body=b"payload" if method == "POST" else None,
                max_bytes=1_000_000,
                seconds=seconds,
                approved=(url,) if approved else (),
            )

    async def verdict(self, url: str, *, allow: tuple[str, ...] = (), approved: bool = False) -> str:
        try:
            await self.fetch(url, allow=allow, approved=approved)
        except Denied as denied:
            return "ask" if "needs a person's approval" in denied.message else "deny"
        except FetchFailed as failed:
            return "cut" if "cut off" in failed.message or "within" in failed.message else failed.message
        return "allow"


@pytest.fixture
def net(server: Server, secure: Server, resolver: Resolver, authority: Authority) -> Net:
    resolver.dns.names |= {"open.test": [["127.0.0.1"]], "secure.test": [["127.0.0.1"]]}
    return Net(server, secure, resolver, authority)


async def public(net: Net) -> str:
    """Nothing but loopback is reached in tests: the judgement, and a fetch with a checked certificate."""
    assert judge_url("https://example.org/").verdict == "allow"
    assert judge_addresses("example.org", 443, ["93.184.215.14", "2606:2800::1"]).verdict == "allow"
    return await net.verdict(net.secure_url)


async def metadata(net: Net) -> str:
    for address in ("169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16"):
        assert await net.verdict(f"http://{address}/", allow=(f"{address}:80",)) == "deny"
    net.resolver.dns.names["friendly.test"] = [["169.254.169.254"]]
    return await net.verdict("http://friendly.test/", allow=("friendly.test:80",))


async def loopback(net: Net) -> str:
    for host in ("127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0", "[::]", "localhost"):
        assert await net.verdict(f"http://{host}/") == "deny", host
    port = net.server.port
    assert await net.verdict(f"http://127.0.0.1:{port}/", allow=(f"127.0.0.1:{port}",)) == "allow"
    return await net.verdict(f"http://127.0.0.1:{port}/", allow=("127.0.0.1:1",))


async def private(net: Net) -> str:
    hosts = ("10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fc00::1]", "[fe80::1]")
    for number, host in enumerate(hosts):
        assert await net.verdict(f"http://{host}/") == "deny", host
        net.resolver.dns.names[f"n{number}.test"] = [[host.strip("[]")]]
        assert await net.verdict(f"http://n{number}.test/") == "deny", host
    return "deny"


async def spellings(net: Net) -> str:
    for host in ("2130706433", "0x7f.1", "0177.0.0.1", "127.1", "１２７.0.0.1", "0x7f000001", "127.0.0.1."):
        assert await net.verdict(f"http://{host}/") == "deny", host
    return "deny"


async def wrapped(net: Net) -> str:
    for host in ("[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2002:a00:1::1]", "[::ffff:a9fe:a9fe]"):
        assert await net.verdict(f"http://{host}/") == "deny", host
    return "deny"


async def redirect_inside(net: Net) -> str:
    net.resolver.dns.names["inner.test"] = [["10.0.0.1"]]
    for target in ("http://127.0.0.1/", "http://inner.test/", "http://169.254.169.254/", "//10.0.0.1/x"):
        assert await net.verdict(f"{net.url}/to?url={target}") == "deny", target
    assert len(net.server.requests) == 4
    return "deny"


async def mixed(net: Net) -> str:
    net.resolver.dns.names["mixed.test"] = [["93.184.215.14", "127.0.0.1"]]
    net.resolver.dns.names["mixed6.test"] = [["93.184.215.14", "fd00::1"]]
    assert await net.verdict("http://mixed6.test/") == "deny"
    return await net.verdict("http://mixed.test/")


async def rebinding(net: Net) -> str:
    """One look-up for a hop, and the connection goes where it said; the next look-up is judged anew."""
    name, port = "turns.test", net.server.port
    net.resolver.dns.names[name] = [["127.0.0.1"], ["127.0.0.2"]]
    assert await net.verdict(f"http://{name}:{port}/", allow=(f"{name}:{port}",)) == "allow"
    assert net.resolver.dns.asked == [f"{name} A", f"{name} AAAA"]
    assert [peer for *_, peer in net.server.requests] == ["127.0.0.1"]
    net.resolver.dns.names["open-then-private.test"] = [["93.184.215.14"], ["10.0.0.1"]]
    async with GuardedClient(resolve=net.resolver) as client:
        assert (await client.check("http://open-then-private.test/")).verdict == "allow"
    return await net.verdict("http://open-then-private.test/")


async def ambiguous(net: Net) -> str:
    for url in (
        *("http://open.test@127.0.0.1/", "http://user:pw@open.test/", "http://open.test\\@127.0.0.1/"),
        *("http://open.test\x00.evil/", "http://open.test%00/", "http://open.test:80:80/", "http:///x", "http://a b/"),
    ):
        assert await net.verdict(url) == "deny", url
    return "deny"


async def schemes(net: Net) -> str:
    for url in ("file:///etc/passwd", "ftp://open.test/", "gopher://open.test/", "data:,x", "unix:/run/x"):
        assert await net.verdict(url) == "deny", url
    return await net.verdict(f"{net.url}/to?url=file:///etc/passwd")


async def another_origin(net: Net) -> str:
    other = f"http://127.0.0.1:{net.server.port}/landed"
    verdict = await net.verdict(f"{net.url}/to?url={other}", allow=(f"127.0.0.1:{net.server.port}",))
    first, second = (headers for _, headers, *_ in net.server.requests)
    assert first["authorization"] == "Bearer secret"
    assert not {"authorization", "cookie", "x-api-key"} & set(second)
    assert second["accept"] == "text/html"
    return verdict


async def no_end(net: Net) -> str:
    for path in ("endless", "bomb"):
        assert await net.verdict(f"{net.url}/{path}") == "cut", path
    return await net.verdict(f"{net.url}/slow")


async def downgrade(net: Net) -> str:
    return await net.verdict(f"{net.secure_url}/to?url={net.url}/")


async def ports(net: Net) -> str:
    net.resolver.dns.names["odd.test"] = [["127.0.0.1"]]
    url = f"http://odd.test:{net.server.port}/"
    assert await net.verdict(url, allow=(f"odd.test:{net.server.port}",)) == "allow"
    assert await net.verdict(url, approved=True) == "deny", "approval of the port does not make the address public"
    return await net.verdict(url)


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


async def proxies(net: Net) -> str:
    assert await net.verdict(net.url) == "allow"
    async with GuardedClient(
        NetworkSettings(hosts=frozenset({"far.test:80"}), proxy=f"http://127.0.0.1:{net.server.port}"),
        resolve=net.resolver,
    ) as client:
        net.resolver.dns.names["far.test"] = [["127.0.0.9"]]
        assert (await client.fetch("GET", "http://far.test/x")).status == 200
    assert net.server.requests[-1][1]["host"] == "far.test"
    return "ignored"


async def kept(net: Net) -> str:
    net.resolver.dns.names["hook.test"] = [["93.184.215.14"], ["10.0.0.1"]]
    async with GuardedClient(resolve=net.resolver) as client:
        assert (await client.check("https://hook.test/in")).verdict == "allow"
        assert (await client.check("https://hook.test/in")).verdict == "deny"
        assert (await client.check("http://127.0.0.1/")).verdict == "deny"
        with pytest.raises(Denied):
            await client.fetch("POST", "https://hook.test/in", body=b"{}")
    return "judged"


ROWS: list[Callable[[Net], Awaitable[str]]] = [
    *(public, metadata, loopback, private, spellings, wrapped, redirect_inside, mixed, rebinding, ambiguous, schemes),
    *(another_origin, no_end, downgrade, ports, proxies, kept),
]


def rows() -> list[tuple[str, str]]:
    return [(line.split("\t")[0], line.split("\t")[1]) for line in TABLE.read_text().splitlines()[1:]]


@pytest.mark.spec("PERM-04")
@pytest.mark.usefixtures("proxied")
@pytest.mark.parametrize(
    ("row", "verdict"),
    [(row, verdict) for row, (_, verdict) in zip(ROWS, rows(), strict=True)],
    ids=[request for request, _ in rows()],
)
async def test_the_table_of_requests_is_kept(row: Callable[[Net], Awaitable[str]], verdict: str, net: Net) -> None:
    assert await row(net) == verdict


async def test_an_answer_is_read_whole_with_status_headers_and_its_url(net: Net) -> None:
    fetched = await net.fetch(f"{net.url}/to?url=/there")

    assert (fetched.status, fetched.body, fetched.url) == (200, b"hello from /there", f"{net.url}/there")
    assert fetched.headers["content-type"].startswith("text/plain")
    assert all("session" not in headers.get("cookie", "") for _, headers, *_ in net.server.requests)


async def test_a_certificate_must_be_valid_for_the_name(net: Net) -> None:
    net.resolver.dns.names["other.test"] = [["127.0.0.1"]]
    url = f"https://other.test:{net.secure.port}/"

    with pytest.raises(FetchFailed, match="certificate"):
        await net.fetch(url, allow=(f"other.test:{net.secure.port}",))
    async with GuardedClient(
        NetworkSettings(hosts=frozenset({f"secure.test:{net.secure.port}"})), resolve=net.resolver
    ) as client:
        with pytest.raises(FetchFailed, match="certificate"):
            await client.fetch("GET", net.secure_url)


async def test_a_body_is_sent_on_within_the_origin_only(net: Net) -> None:
    await net.fetch(f"{net.url}/to?status=307&url=/again", method="POST")
    assert net.server.requests[-1][0] == "POST /again"
    assert net.server.requests[-1][2] == b"payload"
    await net.fetch(f"{net.url}/to?status=303&url=/after", method="POST")
    assert net.server.requests[-1][0] == "GET /after"
    with pytest.raises(Denied, match="another origin"):
        await net.fetch(f"{net.url}/to?status=307&url={net.secure_url}/", method="POST")


async def test_endless_redirects_end(net: Net) -> None:
    with pytest.raises(FetchFailed, match="redirects more than 5 times"):
        await net.fetch(f"{net.url}/loop")


async def test_a_redirect_to_another_host_can_be_told_instead_of_followed(net: Net) -> None:
    settings = NetworkSettings(hosts=frozenset({f"open.test:{net.server.port}"}))
    async with GuardedClient(settings, resolve=net.resolver) as client:
        away = await client.fetch("GET", f"{net.url}/to?url=https://elsewhere.test/x", stay=True)
        here = await client.fetch("GET", f"{net.url}/to?url=/x", stay=True)

    assert (away.status, away.onward) == (302, "https://elsewhere.test/x")
    assert (here.status, here.onward) == (200, None)


async def test_who_can_not_be_looked_up_or_reached_is_a_failure_not_a_verdict(net: Net) -> None:
    async with GuardedClient(NetworkSettings(hosts=frozenset({"127.0.0.1:1"}))) as client:
        with pytest.raises(FetchFailed, match="could not be reached"):
            await client.fetch("GET", "http://127.0.0.1:1/")
    with pytest.raises(Denied, match="has no address"):
        await net.fetch("http://nobody.test/")


async def test_a_stream_comes_piece_by_piece(net: Net) -> None:
    settings = NetworkSettings(hosts=frozenset({f"open.test:{net.server.port}"}))
    async with (
        GuardedClient(settings, resolve=net.resolver) as client,
        client.stream("GET", f"{net.url}/slow") as answer,
    ):
        assert answer.status == 200
        assert await anext(answer.body) == b"drop"


@pytest.mark.spec("PERM-04")
async def test_a_denied_host_and_all_below_it_are_never_asked_not_even_by_a_redirect(net: Net) -> None:
    hosts = frozenset({f"open.test:{net.server.port}"})
    for denied in ("open.test", "TEST."):
        settings = NetworkSettings(hosts=hosts, denied=frozenset({denied}))
        async with GuardedClient(settings, resolve=net.resolver) as client:
            with pytest.raises(Denied, match=r"denied by network\.deny"):
                await client.fetch("GET", f"{net.url}/x")
            assert (await client.check(f"{net.url}/x")).verdict == "deny"
    settings = NetworkSettings(hosts=hosts, denied=frozenset({"elsewhere.test"}))
    async with GuardedClient(settings, resolve=net.resolver) as client:
        with pytest.raises(Denied, match=r"elsewhere\.test is denied by network\.deny"):
            await client.fetch("GET", f"{net.url}/to?url=https://elsewhere.test/x")
