"""Questions and variables over HTTP: what waits for people, and what they say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.runtime.deps import Tuning
from retinue.schema.agent import Immediate, Subagent
from retinue.schema.ids import ThreadId
from retinue.schema.permission import Permissions
from support.agents import agent
from support.serving import Api, Client, serving

ASKER = agent("asker", "request_user_input", "bash", permissions=Permissions(default="ask"))


def asks(request: ScriptedRequest) -> Say:
    """The message names the kind of question; `bash` asks for a permission."""
    if request.outcomes:
        return Say(text=f"answer: {request.outcomes[-1].status} {request.outcomes[-1].text}")
    if request.message == "bash":
        return Say(calls=[CallTool("bash", {"command": "deploy release"})])
    arguments = {"prompt": "Which?", "inputType": request.message, "choices": ["red", "blue"]}
    return Say(calls=[CallTool("request_user_input", arguments)])


async def asked(client: Client, kind: str) -> dict[str, Any]:
    """Start a thread that asks, and wait until its question is listed."""
    thread = (await client.post("/v1/threads", {"agent": "asker", "message": kind})).json["id"]
    async with client.stream(f"/v1/threads/{thread}/events") as stream:
        async for event in stream:
            if event.kind == "question.asked":
                break
    [question] = (await client.get(f"/v1/questions?root={thread}")).json["items"]
    return question


async def result(client: Client, thread: str) -> str:
    async with client.stream(f"/v1/threads/{thread}/events") as stream:
        async for event in stream:
            if event.kind == "run.completed":
                return event.data["event"]["completion"]["result"]
    raise AssertionError("no completion")


@pytest.mark.spec("ASK-01")
@pytest.mark.parametrize(
    ("kind", "wrong", "answer", "told"),
    [
        ("text", None, "green", "ok green"),
        ("choice", "green", "red", "ok red"),
        ("approval", "perhaps", True, "ok true"),
    ],
)
async def test_a_question_is_answered_over_http(
    tmp_path: Path, kind: str, wrong: object, answer: object, told: str
) -> None:
    async with serving(tmp_path, asks, agents=[ASKER]) as api:
        client = await api.client()
        question = await asked(client, kind)
        path = f"/v1/questions/{question['id']}/answer"

        assert (question["kind"], question["prompt"], question["path"]) == (kind, "Which?", ["asker"])
        if wrong is not None:
            refused = await client.post(path, {"answer": wrong})
            assert (refused.status, refused.json["code"]) == (400, "usage")
        said = await client.post(path, {"answer": answer})

        assert (said.status, said.json["thread"]) == (200, question["thread"])
        assert await result(client, question["thread"]) == f"answer: {told}"
        assert (await client.post(path, {"answer": answer})).status == 404
        assert (await client.get("/v1/questions")).json["items"] == []


@pytest.mark.spec("ASK-01")
async def test_a_file_is_answered_with_an_upload_and_never_with_a_path_of_the_server(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of the server")
    async with serving(tmp_path, asks, agents=[ASKER]) as api:
        client = await api.client()
        question = await asked(client, "file")
        path = f"/v1/questions/{question['id']}/answer"
        for stolen in ({"answer": str(secret)}, {"file": str(secret)}, {"file": "../../../secret.txt"}):
            assert (await client.post(path, stolen)).status in (400, 404)
        kept = await client.ask("POST", f"/v1/threads/{question['thread']}/files?name=a.txt", data=b"mine")

        assert (await client.post(path, {"file": kept.json["path"]})).status == 200
        told = await result(client, question["thread"])
        assert told.startswith("answer: ok ") and Path(told.split()[-1]).read_bytes() == b"mine"


@pytest.mark.spec("ASK-03", "PERM-05")
async def test_approvals_of_trees_are_in_one_list_and_one_answer_unblocks_what_it_names(tmp_path: Path) -> None:
    async with serving(tmp_path, asks, agents=[ASKER]) as api:
        client = await api.client("questions:write", "threads:write")
        first, second = await asked(client, "bash"), await asked(client, "bash")
        listed = (await client.get("/v1/questions?limit=1")).json

        assert [q["id"] for q in listed["items"]] == [first["id"]]
        rest = (await client.get(f"/v1/questions?cursor={listed['next']}")).json
        assert [q["id"] for q in rest["items"]] == [second["id"]]
        assert (first["tool"], first["arguments"]) == ("bash", '{"command":"deploy release"}')
        bare = await client.post(f"/v1/questions/{second['id']}/answer", {"answer": "yes"})
        assert bare.status == 400
        await client.post(f"/v1/questions/{second['id']}/answer", {"scope": "deny", "answer": "not today"})

        assert "not today" in await result(client, second["thread"])
        assert [q["id"] for q in (await client.get("/v1/questions")).json["items"]] == [first["id"]]
        log = await api.app.engine.log(ThreadId(second["thread"]))
        settled = [event for _, event in log if type(event).__name__ == "QuestionSettled"]
        assert "key test" in repr(settled)


PARENT = agent(
    "parent",
    subagents=(Subagent(name="worker", immediate=Immediate(scoped_env=("API_TOKEN", "REGION"))),),
    can_spawn_subagents=True,
)
WORKER = agent("worker", completion="response")


async def waiting(api: Api, client: Client) -> tuple[str, str]:
    thread = (await client.post("/v1/threads", {"agent": "parent", "message": "go"})).json["id"]
    async with client.stream(f"/v1/threads/{thread}/events") as stream:
        async for event in stream:
            if event.kind == "variables.requested":
                return thread, event.data["event"]["request"]
    raise AssertionError("no variables were asked for")


@pytest.mark.spec("SUB-11")
@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_missing_variables_are_named_given_in_parts_and_then_gone(tmp_path: Path, prefix: str) -> None:
    async with serving(tmp_path, lambda r: Say(text=f"{r.agent} done"), agents=[PARENT, WORKER]) as api:
        client = await api.client()
        thread, request = await waiting(api, client)
        path = f"{prefix}/threads/{thread}/variables/{request}"

        assert (await client.get(path)).json == {
            "required": ["API_TOKEN", "REGION"],
            "missing": ["API_TOKEN", "REGION"],
        }
        unknown = await client.post(path, {"variables": {"OTHER": "x"}})
        assert (unknown.status, unknown.json["code"]) == (400, "usage")
        partial = await client.post(path, {"variables": {"REGION": "north-sesame"}})
        assert (partial.status, partial.json["missing"]) == (200, ["API_TOKEN"])
        assert (await client.get(path)).json["missing"] == ["API_TOKEN"]
        whole = await client.post(path, {"variables": {"API_TOKEN": "open-sesame"}})
        assert (whole.status, whole.json["missing"]) == (200, [])

        for answer in (await client.get(path), await client.post(path, {"variables": {"REGION": "x"}})):
            assert (answer.status, answer.json["code"]) == (410, "gone")
        assert (await client.get(f"{path}0")).status == 404
        assert await result(client, thread) == "parent done"
        children = (await client.get(f"/v1/threads/{thread}/children")).json["items"]
        assert [(child["agent"], child["status"]) for child in children] == [("worker", "completed")]
        exported = await client.get(f"/v1/threads/{thread}/export")
        stored = b"".join(file.read_bytes() for file in api.app.data.glob("retinue.db*"))
        assert b"sesame" not in exported.body + stored


@pytest.mark.spec("SUB-11")
async def test_a_request_for_variables_expires(tmp_path: Path) -> None:
    tuning = Tuning(titles=False, variables_expire=0.05)
    agents = [PARENT, WORKER]
    async with serving(tmp_path, lambda r: Say(text=f"{r.agent} done"), agents=agents, tuning=tuning) as api:
        client = await api.client()
        thread, request = await waiting(api, client)
        async with asyncio.timeout(10):
            status = 200
            while status == 200:
                status = (await client.get(f"/v1/threads/{thread}/variables/{request}")).status
        assert status == 410
