"""The door: who may come in, for whom, how often and with how much."""

import logging
from pathlib import Path

import msgspec
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from retinue.app.clock import SystemClock
from retinue.app.settings import ServeSettings
from retinue.http.api import Api as Rest
from retinue.http.routing import Routes
from retinue.models.script import Say
from retinue.web.guard import Guard
from support.agents import agent
from support.serving import Api, serving


@pytest.mark.spec("API-03")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "[::1]:8420"}, 200),
        ({"Host": "agents.example.com"}, 200),
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "127.0.0.1.evil.example.com"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "agents.example.com", "Origin": "http://agents.example.com"}, 200),
        ({"Origin": "https://tools.example.com"}, 200),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_only_requests_for_this_server_from_its_own_pages_come_in(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    settings = ServeSettings(hosts=("agents.example.com",), origins=("https://tools.example.com",))
    async with serving(tmp_path, lambda _: Say(text="done"), serve=settings) as api:
        answer = await api.with_token("").get("/v1/health", **headers)

    assert answer.status == status
    allowed = answer.headers.get("access-control-allow-origin")
    assert allowed == ("https://tools.example.com" if headers.get("Origin") == "https://tools.example.com" else None)


@pytest.mark.spec("API-03")
async def test_other_origins_are_told_nothing_unless_the_operator_lists_them(api: Api) -> None:
    client = await api.client()

    preflight = await client.ask(
        "OPTIONS",
        "/v1/threads",
        headers={"Origin": "https://evil.example.com", "Access-Control-Request-Method": "POST"},
    )

    assert preflight.status == 403
    assert not [name for name in preflight.headers if name.startswith("access-control")]


@pytest.mark.spec("API-03")
async def test_every_answer_has_headers_that_keep_browsers_in_line(api: Api) -> None:
    client = await api.client()

    for path in ("/v1/health", "/v1/threads", "/v1/nothing", "/docs"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


@pytest.mark.spec("API-03")
async def test_a_body_over_the_limit_is_refused_however_it_comes(tmp_path: Path) -> None:
    settings = ServeSettings(max_body=1000)
    async with serving(tmp_path, lambda _: Say(text="done"), agents=[agent("helper")], serve=settings) as api:
        client = await api.client()

        async def trickle() -> object:
            for _ in range(100):
                yield b"x" * 100

        declared = await client.ask("POST", "/v1/threads", {"message": "x" * 1000})
        headers = {"Authorization": f"Bearer {client.token}"}
        async with client.session.post("/v1/threads", data=trickle(), headers=headers) as response:
            chunked = response.status

        assert (declared.status, declared.json["code"], chunked) == (413, "too_large", 413)
        assert (await client.post("/v1/threads", {"agent": "helper", "message": "x"})).status == 201


class Hasty(SystemClock):
    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.mark.spec("API-03")
async def test_a_key_that_asks_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    clock, settings = Hasty(), ServeSettings(rate=0.5, burst=3)
    async with serving(tmp_path, lambda _: Say(text="done"), serve=settings, clock=clock) as api:
        client, other, stranger = await api.client(), await api.client(), api.with_token("rtn_wrong")

        answers = [await client.get("/v1/keys") for _ in range(5)]
        assert [a.status for a in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].headers["retry-after"] == "2"
        assert (await other.get("/v1/keys")).status == 200
        assert [(await stranger.get("/v1/keys")).status for _ in range(5)] == [401, 401, 401, 429, 429]
        assert (await other.get("/v1/keys")).status == 200  # from the same address, and with a good key
        clock.ahead = 2.1
        assert (await client.get("/v1/keys")).status == 200


@pytest.mark.spec("API-03")
@pytest.mark.parametrize("inside", ["the door", "the API"])
async def test_a_bug_is_told_in_the_log_and_not_to_the_caller(
    api: Api, caplog: pytest.LogCaptureFixture, inside: str
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError("the secret reason")

    async def endpoint() -> Response:
        raise ZeroDivisionError("the secret reason")

    routes = Routes("broken")
    routes.on("GET", "/broken", None, "text/plain")(endpoint)
    app = Rest(api.served, routes.operations)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/broken",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }
    with caplog.at_level(logging.ERROR):
        await Guard(broken if inside == "the door" else app, api.served)(scope, receive, send)

    assert (sent[0]["status"], msgspec.json.decode(sent[1]["body"])["code"]) == (500, "internal")
    assert b"secret" not in sent[1]["body"]
    assert "the secret reason" in caplog.text


async def test_a_server_tells_that_it_lives_and_is_ready_without_a_key(api: Api) -> None:
    stranger = api.with_token("")

    assert (await stranger.get("/v1/health")).json["status"] == "ok"
    assert (await stranger.get("/v1/readiness")).json["status"] == "ready"
    api.served.closing.set()
    assert (await stranger.get("/v1/readiness")).status == 503
    api.served.closing.clear()
    assert (await stranger.get("/v1/metrics")).status == 401
    await (await api.client()).post("/v1/runs", {"agent": "helper", "message": "x"})
    metrics = (await (await api.client("metrics:read")).get("/v1/metrics")).body.decode()
    assert 'retinue_runs_total{status="SUCCESS"} 1\n' in metrics
    assert 'retinue_tokens_total{kind="output"} ' in metrics
    assert "# TYPE retinue_http_requests_total counter\n" in metrics
    assert 'retinue_http_requests_total{method="GET",status="503"} 1\n' in metrics
    assert "retinue_streams 0\n" in metrics
