"""Requests that come twice happen once."""

import asyncio
from pathlib import Path

import pytest

from retinue.models.script import Say
from support.agents import agent
from support.serving import Api, serving

AGENTS = [agent("helper")]
BODY = {"agent": "helper", "message": "hello"}


async def threads(api: Api) -> int:
    return len(await api.app.engine.runtime.store.rows(None))


@pytest.mark.spec("API-03")
async def test_the_same_request_with_the_same_key_gets_the_same_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say(text="done"), agents=AGENTS) as api:
        client, other = await api.client("threads:write"), await api.client("threads:write")

        first = await client.post("/v1/threads", BODY, Idempotency_Key="a")
        again = await client.post("/v1/threads", BODY, Idempotency_Key="a")
        different = await client.post("/v1/threads", {**BODY, "message": "bye"}, Idempotency_Key="a")
        others = await other.post("/v1/threads", BODY, Idempotency_Key="a")

        assert (first.status, first.body, first.headers["location"]) == (201, again.body, again.headers["location"])
        assert (again.status, again.headers["idempotent-replayed"]) == (201, "true")
        assert (different.status, different.json["code"]) == (422, "idempotency_mismatch")
        assert others.json["id"] != first.json["id"]
        assert await threads(api) == 2


async def test_a_request_under_way_is_not_begun_again(tmp_path: Path) -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def script(_: object) -> Say:
        asked.set()
        await gate.wait()
        return Say(text="done")

    async with serving(tmp_path, script, agents=AGENTS) as api:
        client = await api.client("threads:write")
        first = asyncio.create_task(client.post("/v1/runs", BODY, Idempotency_Key="a"))
        await asyncio.wait_for(asked.wait(), 10)
        second = await client.post("/v1/runs", BODY, Idempotency_Key="a")
        gate.set()

        assert (second.status, second.json["code"], second.headers["retry-after"]) == (409, "in_progress", "1")
        assert (await first).json["completion"]["result"] == "done"
        assert (await client.post("/v1/runs", BODY, Idempotency_Key="a")).json == (await first).json
        assert await threads(api) == 1


@pytest.mark.spec("API-03", "RUN-01")
async def test_what_a_dead_server_had_begun_is_found_and_not_repeated(tmp_path: Path) -> None:
    """It kept no answer; what it did has ids that derive from the key."""
    async with serving(tmp_path, lambda _: Say(text="done"), agents=AGENTS) as api:
        client = await api.client("threads:write")
        token, first = client.token, await client.post("/v1/threads", BODY, Idempotency_Key="a")
        thread = first.json["id"]
        await client.post(f"/v1/threads/{thread}/messages", {"message": "two"}, Idempotency_Key="b")
        forked = await client.post(f"/v1/threads/{thread}/fork", {}, Idempotency_Key="c")
        answers = api.app.database.answers
        for key in ("a", "b", "c"):  # as if it had died before it kept the answers
            whole = f"{token.split('_')[1]}:{key}"
            held = await answers.begin(whole, fingerprint="", owner="", now=api.app.engine.runtime.clock.now())
            assert held is not None
            await answers.forget(whole)
            await answers.begin(
                whole, fingerprint=held.fingerprint, owner="dead", now=api.app.engine.runtime.clock.now()
            )

    async with serving(tmp_path, lambda _: Say(text="done"), agents=AGENTS) as api:
        client = api.with_token(token)
        again = await client.post("/v1/threads", BODY, Idempotency_Key="a")
        await client.post(f"/v1/threads/{thread}/messages", {"message": "two"}, Idempotency_Key="b")
        fork = await client.post(f"/v1/threads/{thread}/fork", {}, Idempotency_Key="c")
        entries = (await client.get(f"/v1/threads/{thread}/messages")).json["items"]

        assert (again.status, again.json["id"], fork.json["id"]) == (201, thread, forked.json["id"])
        assert [e["text"] for e in entries if e["kind"] == "message"] == ["hello", "two"]
        assert await threads(api) == 2


async def test_a_request_that_was_refused_may_come_again_with_its_key(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say(text="done"), agents=AGENTS) as api:
        client = await api.client("threads:write")

        refused = await client.post("/v1/threads", {**BODY, "agent": "nobody"}, Idempotency_Key="a")
        taken = await client.post("/v1/threads", BODY, Idempotency_Key="a")

        assert (refused.status, taken.status) == (404, 201)
        assert (await client.post("/v1/threads", BODY, Idempotency_Key="x" * 256)).status == 400


async def test_what_is_deleted_twice_with_one_key_is_deleted_once(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say(text="done"), agents=AGENTS) as api:
        client, path = await api.client(), "/v1/memory/item?namespace=helper&key=a"
        await client.ask("PUT", path, {"value": 1})

        deleted = [await client.ask("DELETE", path, headers={"Idempotency-Key": "a"}) for _ in range(2)]

        assert [answer.status for answer in deleted] == [204, 204]
        assert (await client.ask("DELETE", path)).status == 404


async def test_a_kept_answer_holds_no_secret_in_the_clear(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: Say(text="done"), agents=AGENTS) as api:
        client = await api.client()
        body = {"name": "ci", "scopes": ["threads:read"]}

        made = await client.post("/v1/keys", body, Idempotency_Key="a")
        again = await client.post("/v1/keys", body, Idempotency_Key="a")

        assert made.json["token"] == again.json["token"]
        database = b"".join(file.read_bytes() for file in api.app.data.glob("retinue.db*"))
        assert made.json["token"].encode() not in database
