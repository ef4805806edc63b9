"""What a server does beside answering: it follows its sources, and lets another one drive."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from retinue.app.clock import SystemClock
from retinue.app.settings import ServeSettings
from retinue.asgi.protocol import LONGEST_HEAD
from retinue.asgi.server import is_loopback, listen
from retinue.models.script import Say
from retinue.schema.errors import SettingsError
from retinue.sources.database import CustomAgents
from retinue.storage.sqlite import open_database
from support.agents import agent
from support.serving import Api, serving

FIELDS = {"Name": "New", "Slug": "new", "ProviderId": "p", "ModelId": "m", "SystemPrompt": "You are new."}


async def found(api: Api, name: str) -> bool:
    client = await api.client("agents:read")
    async with asyncio.timeout(10):
        status = 404
        while status == 404:
            status = (await client.get(f"/v1/agents/{name}")).status
    return status == 200


@pytest.mark.spec("REG-11")
async def test_agents_that_others_write_while_it_runs_are_served(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    async with serving(tmp_path, lambda _: Say(text="done")) as api:
        clock, elsewhere = SystemClock(), await open_database(api.app.data / "retinue.db")
        await CustomAgents(elsewhere.records, builtin=(), now=clock.now, new_id=clock.new_id).create(FIELDS)
        await elsewhere.close()
        (folder / "written.md").write_text("---\ndescription: Written.\n---\nYou are written.\n")

        assert await found(api, "new")
        assert await found(api, "written")


@pytest.mark.spec("RUN-14")
async def test_a_server_beside_the_one_that_drives_serves_the_same_threads(tmp_path: Path) -> None:
    agents = [agent("helper")]
    async with (
        serving(tmp_path, lambda _: Say(text="done"), agents=agents) as first,
        serving(tmp_path, lambda _: Say(text="never asked"), agents=agents) as second,
    ):
        client = await second.client()
        assert (first.app.engine.drives, second.app.engine.drives) == (True, False)
        assert (await client.get("/v1/readiness")).json["status"] == "standing by"
        thread = (await client.post("/v1/threads", {"agent": "helper", "message": "go"})).json["id"]
        kinds: list[str] = []
        async with asyncio.timeout(20), client.stream(f"/v1/threads/{thread}/events") as stream:
            async for event in stream:
                kinds.append(event.kind)
                if event.kind == "run.completed":
                    break
        said = await client.post(f"/v1/threads/{thread}/messages", {"message": "again", "wait": 20})

        assert kinds[0] == "thread.started"
        assert said.json["completion"]["result"] == "done"


@pytest.mark.spec("API-03")
@pytest.mark.parametrize("line", [b"X-Long: ", b"GET /", b"X: y\r\n"])
async def test_a_head_without_an_end_is_cut_off(tmp_path: Path, line: bytes) -> None:
    async with serving(tmp_path, lambda _: Say(text="done")) as api:
        port = int(api.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start = line if line.startswith(b"GET") else b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + line
        writer.write(start)
        more = line * 1000 if line.endswith(b"\n") else b"a" * 4096
        with contextlib.suppress(ConnectionError):
            for _ in range(2 * LONGEST_HEAD // len(more)):
                writer.write(more)
                await writer.drain()
        async with asyncio.timeout(20):
            said = await reader.read(100)
        writer.close()
        assert said.startswith(b"HTTP/1.1 400")
        assert (await api.with_token("").get("/v1/health")).status == 200


@pytest.mark.spec("API-03")
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", b""),
        (b"GET /v1/health HTTP/1.1\r\nHost: local", b""),
        (
            b"POST /v1/threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nAuthorization: Bearer %b\r\n\r\n{",
            b"408",
        ),
    ],
)
async def test_who_begins_a_request_and_says_no_more_is_not_waited_for_and_two_hosts_are_none(
    tmp_path: Path, sent: bytes, said: bytes
) -> None:
    settings = ServeSettings(request_seconds=0.2)
    async with serving(tmp_path, lambda _: Say(text="done"), serve=settings) as api:
        token = (await api.client()).token.encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
        writer.write(sent % token if b"%b" in sent else sent)
        async with asyncio.timeout(20):
            answer = await reader.read(12)
        writer.close()

    assert answer[9:] == said


def test_only_loopback_is_taken_for_this_machine() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "127.8.8.8")] == [True] * 4
    assert [is_loopback(h) for h in ("0.0.0.0", "::", "192.168.1.1", "example.com")] == [False] * 4


def test_a_port_that_is_taken_is_told() -> None:
    with listen("127.0.0.1", 0) as bound, pytest.raises(SettingsError, match="can't be listened on"):
        listen("127.0.0.1", bound.getsockname()[1])
