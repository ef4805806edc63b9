"""Where servers over HTTP may be: the verdicts of the network rules hold for them too."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from retinue.schema.agent import McpServer
from support.mcp import Caller, McpFactory
from support.ports import free_port


async def problem(
    mcp: McpFactory, tmp_path: Path, url: str, *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> str:
    servers = mcp({"x": McpServer(url=url)}, allow=allow, deny=deny)
    return (await Caller(servers, tmp_path, "x").call("mcp_x_connect")).text


@pytest.mark.spec("PERM-04")
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9/mcp", "127.0.0.1 is not a public address"),
        ("http://localhost/mcp", "localhost is this machine"),
        ("http://169.254.169.254/mcp", "serves the machine's own credentials"),
        ("http://10.1.2.3/mcp", "10.1.2.3 is not a public address"),
        ("http://2130706433/mcp", "not an address in its usual spelling"),
        ("http://a@b/mcp", "user information"),
        ("file:///etc/passwd", "not of the form http://host/path"),
    ],
)
async def test_a_server_that_is_not_on_a_public_address_needs_the_operator(
    mcp: McpFactory, tmp_path: Path, url: str, why: str
) -> None:
    assert why in await problem(mcp, tmp_path, url)


@pytest.mark.spec("PERM-04")
async def test_metadata_addresses_stay_closed_whatever_is_allowed(mcp: McpFactory, tmp_path: Path) -> None:
    text = await problem(mcp, tmp_path, "http://169.254.169.254/mcp", allow=("169.254.169.254:80",))

    assert "serves the machine's own credentials" in text


@pytest.mark.spec("PERM-04")
async def test_a_host_that_a_settings_file_denies_is_not_asked(mcp: McpFactory, tmp_path: Path) -> None:
    assert "network.deny" in await problem(mcp, tmp_path, "https://example.com/mcp", deny=("example.com",))


@pytest.mark.spec("PERM-04")
async def test_a_redirect_to_another_place_is_not_followed(mcp: McpFactory, tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def onward(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"http://localhost:{closed}/mcp"})

    async def other(_: web.Request) -> web.Response:
        reached.set()
        return web.Response()

    closed, runners = 0, list[web.AppRunner]()
    ports: list[int] = []
    for handler in (other, onward):
        app = web.Application()
        app.add_routes([web.post("/mcp", handler)])
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        ports.append(runner.addresses[0][1])
        closed = ports[0]

    text = await problem(mcp, tmp_path, f"http://127.0.0.1:{ports[1]}/mcp", allow=(f"127.0.0.1:{ports[1]}",))
    for runner in runners:
        await runner.cleanup()

    assert "not followed" in text or "localhost" in text
    assert not reached.is_set()


@pytest.mark.spec("TOOL-06")
async def test_a_server_that_nobody_runs_is_told(mcp: McpFactory, tmp_path: Path) -> None:
    port = free_port()

    text = await problem(mcp, tmp_path, f"http://127.0.0.1:{port}/mcp", allow=(f"127.0.0.1:{port}",))

    assert "127.0.0.1 could not be reached" in text


class Forgetful:
    """A server over HTTP that can be restarted, and forgets its sessions then."""

    def __init__(self) -> None:
        self.session = ""

    async def start(self, port: int) -> web.AppRunner:
        self.session = f"session-{len(self.session)}"
        app = web.Application()
        app.add_routes([web.post("/mcp", self.answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return runner

    async def answer(self, request: web.Request) -> web.Response:
        message = await request.json()
        results: dict[str, object] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "f", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": self.session}]},
        }
        if message["method"] != "initialize" and request.headers.get("Mcp-Session-Id", self.session) != self.session:
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        known = results.get(message["method"])
        said = {"result": known} if known else {"error": {"code": -32601, "message": "unknown"}}
        headers = {"Mcp-Session-Id": self.session}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **said}, headers=headers)


@pytest.mark.spec("TOOL-06")
async def test_a_server_that_was_restarted_is_reached_again(mcp: McpFactory, tmp_path: Path) -> None:
    port, forgetful = free_port(), Forgetful()
    runner = await forgetful.start(port)
    servers = mcp({"f": McpServer(url=f"http://127.0.0.1:{port}/mcp")}, allow=(f"127.0.0.1:{port}",))
    caller = Caller(servers, tmp_path, "f")
    assert (await caller.call("mcp_f_who")).text == "session-0"

    await runner.cleanup()
    runner = await forgetful.start(port)
    forgotten = await caller.call("mcp_f_who")
    again = await caller.call("mcp_f_who")

    await runner.cleanup()
    gone = await caller.call("mcp_f_who")
    assert "call again" in forgotten.text
    assert again.text == "session-9"
    assert gone.status == "interrupted"
