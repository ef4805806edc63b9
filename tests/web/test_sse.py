"""Streams: nothing missed, nothing doubled, nobody held up."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retinue.app.settings import ServeSettings
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.schema.errors import UsageError
from retinue.schema.ids import ThreadId
from retinue.web.sse import places
from support.agents import add, agent
from support.serving import Client, Event, serving

QUIET = ServeSettings(rate=1e4, burst=10_000)
WORDS = [f"word{i} " for i in range(40)]
BOSS = agent("boss", "call_agent", allowed_agents=("helper",), can_spawn_subagents=True, category="primary")
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


async def until(stream: AsyncIterator[Event], kind: str) -> list[Event]:
    """Everything up to the first event of a kind."""
    found: list[Event] = []
    async with asyncio.timeout(20):
        async for event in stream:
            found.append(event)
            if event.kind == kind:
                return found
    raise AssertionError(f"the stream ended without {kind}: {[e.kind for e in found]}")


async def started(client: Client, agent: str, message: str = "go") -> str:
    return (await client.post("/v1/threads", {"agent": agent, "message": message})).json["id"]


def durable(events: list[Event]) -> list[tuple[str, int]]:
    return [(e.data["thread"], e.data["seq"]) for e in events if e.id]


def said_in(events: list[Event]) -> str:
    return [e.data["event"] for e in events if e.kind == "model.answered"][-1]["parts"][0]["text"]


@pytest.mark.spec("RUN-14", "API-03")
async def test_a_reader_gets_the_log_then_what_happens_and_text_as_it_comes(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def script(request: ScriptedRequest) -> Say:
        if request.step == 2:
            await gate.wait()
            return Say(text="".join(WORDS), chunks=WORDS, pace=0.005)
        return Say(calls=[CallTool("add", {"a": 1, "b": 2})])

    async with serving(tmp_path, script, agents=[agent("calc", "add")], tools=[add], serve=QUIET) as api:
        client = await api.client("threads:write")
        thread = await started(client, "calc")
        async with client.stream(f"/v1/threads/{thread}/events") as stream:
            before = await until(stream, "call.settled")
            gate.set()
            after = await until(stream, "run.completed")
        log = await api.app.engine.log(ThreadId(thread))

    assert durable(before + after) == [(thread, seq) for seq in range(1, len(log) + 1)]
    assert [e.id for e in before + after if e.id] == [f"{thread}:{seq}" for seq in range(1, len(log) + 1)]
    deltas = [e.data for e in after if e.kind == "delta" and e.data["kind"] == "text"]
    assert len(deltas) > 1
    assert "".join(WORDS).startswith("".join(d["text"] for d in deltas))  # the end comes with the event itself
    assert said_in(after) == "".join(WORDS)
    assert [d["offset"] for d in deltas] == [sum(len(d["text"]) for d in deltas[:i]) for i in range(len(deltas))]
    asked = [e for e in after if e.kind == "model.asked"] or [e for e in before if e.kind == "model.asked"][-1:]
    assert {d["event"] for d in deltas} == {asked[-1].data["seq"]}
    first = before[0].data["event"]
    assert (first["type"], before[0].kind) == ("thread.started", "thread.started")


@pytest.mark.spec("RUN-14")
async def test_a_reader_that_comes_again_in_the_middle_of_a_text_gets_the_text_so_far(tmp_path: Path) -> None:
    slow = Say(text="".join(WORDS), chunks=WORDS, pace=0.02)
    async with serving(tmp_path, lambda _: slow, agents=[agent("helper")], serve=QUIET) as api:
        client = await api.client("threads:write")
        thread = await started(client, "helper")
        async with client.stream(f"/v1/threads/{thread}/events") as stream:
            seen = await until(stream, "delta")
        last = [e.id for e in seen if e.id][-1]
        async with client.stream(f"/v1/threads/{thread}/events", last) as stream:
            rest = await until(stream, "run.completed")

    assert durable(seen + rest) == [(thread, seq) for seq in range(1, len(durable(seen + rest)) + 1)]
    deltas = [e.data for e in rest if e.kind == "delta"]
    assert deltas[0]["offset"] == 0
    assert "".join(WORDS).startswith("".join(d["text"] for d in deltas))
    assert said_in(rest) == "".join(WORDS)


def _family(request: ScriptedRequest) -> Say:
    if request.agent == "helper":
        return Say(calls=[CallTool("complete_agent_execution", {"result": "helped", "status": "SUCCESS"})])
    call = CallTool("call_agent", {"agent_name": "helper", "input": "help", "context_scope": "NONE"})
    return Say(calls=[call, call]) if request.step == 1 else Say(text="all done")


@pytest.mark.spec("OBS-01", "RUN-14")
async def test_the_stream_of_a_tree_can_be_taken_up_at_any_event(tmp_path: Path) -> None:
    async with serving(tmp_path, _family, agents=[BOSS, agent("helper")], serve=QUIET) as api:
        client = await api.client("threads:write")
        body = {"agent": "boss", "message": "go"}
        thread = (await client.post("/v1/runs", body)).json["thread"]
        path = f"/v1/threads/{thread}/events?tree=true&live=false"
        async with client.stream(path) as stream:
            whole = [e async for e in stream]
        for taken in range(1, len(whole)):
            async with client.stream(path, whole[taken - 1].id) as stream:
                rest = [e async for e in stream]
            assert [e.data for e in whole[:taken] + rest] == [e.data for e in whole]

    assert len({e.data["thread"] for e in whole}) == 3
    assert {tuple(e.data["path"]) for e in whole} >= {(), ("helper",)}
    assert len(set(durable(whole))) == len(whole)


async def test_a_run_can_be_followed_in_the_request_that_starts_it(tmp_path: Path) -> None:
    async with serving(tmp_path, _family, agents=[BOSS, agent("helper")], serve=QUIET) as api:
        client = await api.client("threads:write")
        headers = {"Idempotency-Key": "one"}
        said: list[bytes] = []
        for _ in range(2):
            answer = await client.ask(
                "POST", "/v1/runs", {"agent": "boss", "message": "go", "stream": True}, headers=headers
            )
            assert answer.headers["content-type"].startswith("text/event-stream")
            said.append(answer.body)
        rows = await api.app.engine.runtime.store.rows(None, roots_only=True)

    assert len(rows) == 1
    for body in said:
        assert body.count(b"event: run.completed") == 3  # two children and the run itself
        assert body.count(b"event: child.started") == 2


@pytest.mark.spec("API-03", "RUN-14")
async def test_after_a_restart_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    agents = [agent("helper")]
    async with serving(tmp_path, lambda _: Say(text="done"), agents=agents, serve=QUIET) as api:
        client = await api.client("threads:write")
        token, thread = client.token, await started(client, "helper")
        async with client.stream(f"/v1/threads/{thread}/events") as stream:
            seen = await until(stream, "run.completed")
            stopping = asyncio.create_task(api.stop())
            last = await until(stream, "reconnect")
            assert [e async for e in stream] == []
        await stopping
    assert (last[-1].data["after"], last[-1].id) == (seen[-1].id, "")

    async with serving(tmp_path, lambda _: Say(text="done"), agents=agents, serve=QUIET) as api:
        client = api.with_token(token)
        async with client.stream(f"/v1/threads/{thread}/events", seen[-1].id) as stream:
            await client.post(f"/v1/threads/{thread}/messages", {"message": "again"})
            more = await until(stream, "run.completed")

    assert durable(seen + more) == [
        (thread, seq) for seq in range(1, len(seen + more) + 1 - _deltas(more) - _deltas(seen))
    ]


def _deltas(events: list[Event]) -> int:
    return sum(not e.id for e in events)


async def test_a_stream_beats_and_ends_when_its_key_is_revoked_or_its_time_is_up(tmp_path: Path) -> None:
    settings = ServeSettings(heartbeat=0.05, stream_seconds=0.5, rate=1e4, burst=10_000)
    async with serving(tmp_path, lambda _: Say(text="done"), agents=[agent("helper")], serve=settings) as api:
        client, operator = await api.client("threads:write"), await api.client()
        thread = await started(client, "helper")
        timed = await client.get(f"/v1/threads/{thread}/events")
        assert timed.body.count(b": \n\n") >= 3
        assert timed.body.endswith(b"\n\n") and b"event: reconnect" in timed.body and b"retry: 1000" in timed.body
        async with client.stream(f"/v1/threads/{thread}/events") as stream:
            await until(stream, "run.completed")
            await operator.ask("DELETE", f"/v1/keys/{client.token.split('_')[1]}")
            ended = await until(stream, "reconnect")
        assert ended[-1].data["why"] == "the key is no longer good"
        assert (await client.get(f"/v1/threads/{thread}")).status == 401


@pytest.mark.spec("RUN-14")
async def test_a_thousand_readers_who_wait_all_hear_of_the_next_event_and_of_the_end(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def script(_: ScriptedRequest) -> Say:
        await gate.wait()
        return Say(text="done")

    async with serving(tmp_path, script, agents=[agent("helper")], serve=QUIET) as api:
        client = await api.client()
        thread = await started(client, "helper")
        async with client.stream(f"/v1/threads/{thread}/events") as stream:
            place = (await until(stream, "model.asked"))[-1].id
        head = f"GET /v1/threads/{thread}/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {place}\r\n"
        head += f"Authorization: Bearer {client.token}\r\n\r\n"

        async def read() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
            writer.write(head.encode())
            waiting.append(await reader.readuntil(b": \n\n"))
            if len(waiting) == 1000:
                gate.set()
            said = await reader.readuntil(b"event: run.completed")
            writer.close()
            return said

        waiting: list[bytes] = []
        async with asyncio.timeout(120):
            heard = await asyncio.gather(*(read() for _ in range(1000)))

    ids = [re.findall(rb"id: \S+:(\d+)\nevent: (\S+)", said) for said in heard]
    assert all(found == ids[0] for found in ids)
    assert [kind for _, kind in ids[0]] == [b"model.answered", b"run.completed"]
    assert [int(seq) for seq, _ in ids[0]] == [int(place.rpartition(":")[2]) + n for n in (1, 2)]


@pytest.mark.spec("RUN-14")
async def test_a_reader_that_never_reads_holds_up_nobody(tmp_path: Path) -> None:
    text = "long " * 200_000
    async with serving(tmp_path, lambda _: Say(text=text), agents=[agent("helper")], serve=QUIET) as api:
        client = await api.client("threads:write")
        thread = await started(client, "helper")
        host, _, port = api.url.removeprefix("http://").partition(":")
        stuck = socket.create_connection((host, int(port)))
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = (f"GET /v1/threads/{thread}/events HTTP/1.1", "Host: localhost", f"Authorization: Bearer {client.token}")
        stuck.sendall("\r\n".join((*head, "", "")).encode())
        for _ in range(4):
            said = await client.post(f"/v1/threads/{thread}/messages", {"message": "more", "wait": 10})
            assert said.status == 200
        assert len(api.served.streams) == 1
        stuck.close()
        async with client.stream(f"/v1/threads/{thread}/events?live=false") as stream:
            seen = [e async for e in stream]
        assert durable(seen) == [(thread, seq) for seq in range(1, len(seen) + 1)]


@pytest.mark.spec("SUB-17")
async def test_values_of_variables_are_never_streamed(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say(text="done"), agents=[agent("helper")], serve=QUIET) as api:
        client = await api.client("threads:write")
        body = {"agent": "helper", "message": "go", "env": {"TOKEN": "sesame-open-up"}}
        run = (await client.post("/v1/runs", body)).json
        streamed = await client.get(f"/v1/threads/{run['thread']}/events?live=false")

    assert b'"env":{"TOKEN":"\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2"}' in streamed.body
    assert b"sesame" not in streamed.body


def test_a_place_is_a_number_or_an_id_of_ours() -> None:
    assert places("", ThreadId(ONE)) == {}
    assert places("12", ThreadId(ONE)) == {ONE[:13]: 12}
    assert places(f"{ONE}:3,{TWO[:13]}:4", ThreadId(ONE)) == {ONE[:13]: 3, TWO[:13]: 4}
    for wrong in ("x", "-1", f"{ONE}", f"{ONE}:", "9" * 20, f"{ONE}:1,,"):
        with pytest.raises(UsageError):
            places(wrong, ThreadId(ONE))
