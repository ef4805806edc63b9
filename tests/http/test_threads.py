"""Threads over HTTP: from the first message to the export."""

from pathlib import Path

import msgspec
import pytest

from retinue.app.settings import ServeSettings
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.schema.ids import ThreadId
from support.agents import add, agent
from support.serving import Api, serving

BOSS = agent("boss", "call_agent", allowed_agents=("helper",), can_spawn_subagents=True, category="primary")


def script(request: ScriptedRequest) -> Say:
    if request.agent == "boss" and request.step == 1:
        calls = [CallTool("call_agent", {"agent_name": "helper", "input": "help", "context_scope": "NONE"})]
        return Say(calls=calls)
    if request.agent == "helper":
        return Say(calls=[CallTool("complete_agent_execution", {"result": "helped", "status": "SUCCESS"})])
    if request.message == "wait":
        return Say(fault="hang")
    return Say(text=f"{request.message}!")


@pytest.mark.spec("API-03")
async def test_a_thread_goes_from_its_first_message_to_its_export(api: Api) -> None:
    client = await api.client("threads:write")

    made = await client.post("/v1/threads", {"agent": "helper", "message": "hello"})
    assert made.status == 201
    thread = made.json["id"]
    assert made.headers["location"] == f"/v1/threads/{thread}"
    said = await client.post(f"/v1/threads/{thread}/messages", {"message": "again", "wait": 10})

    assert (said.status, said.json["completion"]["result"]) == (200, "done")
    shown = (await client.get(f"/v1/threads/{thread}")).json
    assert (shown["status"], shown["agent"], shown["completion"]["status"]) == ("completed", "helper", "SUCCESS")
    assert Path(shown["workspace"]) == api.app.data.resolve() / "workspaces" / thread
    messages = (await client.get(f"/v1/threads/{thread}/messages")).json["items"]
    assert [m["text"] for m in messages if m["kind"] == "message"] == ["hello", "again"]
    exported = (await client.get(f"/v1/threads/{thread}/export")).json
    assert [e["seq"] for e in exported["events"]] == list(range(1, shown["head"] + 1))
    markdown = await client.get(f"/v1/threads/{thread}/export.md")
    assert "**user**\n\nhello" in markdown.body.decode()


@pytest.mark.spec("API-03")
async def test_lists_come_in_pages_and_can_be_filtered(api: Api) -> None:
    client = await api.client("threads:write")
    made = [
        (await client.post("/v1/runs", {"agent": a, "message": "x"})).json["thread"] for a in ("helper", "calc") * 3
    ]

    found: list[str] = []
    path = "/v1/threads?limit=4"
    while path:
        page = (await client.get(path)).json
        found += [thread["id"] for thread in page["items"]]
        path = f"/v1/threads?limit=4&cursor={page['next']}" if page["next"] else ""
    assert found == made[::-1]
    calcs = (await client.get("/v1/threads?agent=calc&status=completed")).json["items"]
    assert [thread["id"] for thread in calcs] == made[::-2]
    assert (await client.get("/v1/threads?status=failed")).json == {"items": [], "next": None}
    assert (await client.get("/v1/threads?cursor=bm8")).json["code"] == "usage"
    used = (await client.get("/v1/usage?by=agent")).json
    assert [(line["name"], line["threads"]) for line in used["lines"]] == [("calc", 3), ("helper", 3)]


@pytest.mark.spec("SUB-13")
async def test_children_and_the_tree_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path, script, agents=[BOSS, agent("helper")]) as api:
        client = await api.client()
        run = (await client.post("/v1/runs", {"agent": "boss", "message": "go"})).json
        thread = run["thread"]

        children = (await client.get(f"/v1/threads/{thread}/children")).json["items"]
        tree = (await client.get(f"/v1/threads/{thread}/tree")).json

    [child] = children
    assert set(child) == {
        *("reference", "agent", "name", "title", "description", "resumable", "blocking"),
        *("threadName", "spawnGroupId", "createdAt", "status", "parentCommunication"),
    }
    assert (child["agent"], child["status"], child["parentCommunication"]) == ("helper", "completed", "implicit")
    assert [node["id"] for node in tree["children"]] == [child["reference"]]


@pytest.mark.spec("RUN-12")
async def test_a_run_is_interrupted_resumed_cancelled_and_its_thread_terminated(tmp_path: Path) -> None:
    async with serving(tmp_path, script, agents=[agent("helper"), BOSS, agent("waiter")]) as api:
        client = await api.client()
        thread = (await client.post("/v1/threads", {"agent": "waiter", "message": "wait"})).json["id"]

        async def steer(word: str) -> str:
            answer = await client.post(f"/v1/threads/{thread}/{word}", {"reason": "test"} if word != "resume" else None)
            assert answer.status == 200, answer.body
            return answer.json["status"]

        assert await steer("interrupt") == "interrupted"
        assert await steer("resume") == "running"
        assert await steer("cancel") == "failed"
        shown = (await client.get(f"/v1/threads/{thread}")).json
        assert shown["completion"]["reason"] == "aborted"
        assert await steer("terminate") == "terminated"
        refused = await client.post(f"/v1/threads/{thread}/messages", {"message": "hello?"})
        assert (refused.status, refused.json["code"]) == (409, "conflict")
        again = await client.post(f"/v1/threads/{thread}/resume")
        assert (again.status, again.headers["content-type"]) == (409, "application/problem+json")


@pytest.mark.spec("RUN-12")
async def test_a_fork_goes_on_from_an_event_with_another_message(api: Api) -> None:
    client = await api.client()
    thread = (await client.post("/v1/runs", {"agent": "helper", "message": "one"})).json["thread"]

    forked = await client.post(f"/v1/threads/{thread}/fork", {"message": "two", "agent": "calc"})

    assert (forked.status, forked.json["agent"]) == (201, "calc")
    state = await api.app.engine.state(ThreadId(forked.json["id"]))
    assert state.thread.forked_from == thread
    beyond = await client.post(f"/v1/threads/{thread}/fork", {"at": 999})
    assert (beyond.status, beyond.json["code"]) == (400, "usage")


@pytest.mark.spec("MEM-02")
async def test_a_file_is_uploaded_listed_attached_and_read_again(api: Api) -> None:
    client = await api.client()
    thread = (await client.post("/v1/runs", {"agent": "helper", "message": "one"})).json["thread"]
    path = f"/v1/threads/{thread}/files"

    kept = await client.ask("POST", f"{path}?name=notes.txt", data=b"remember the milk")
    assert kept.status == 201
    said = await client.post(
        f"/v1/threads/{thread}/messages", {"message": "read it", "attachments": [kept.json["path"]], "wait": 10}
    )

    assert said.status == 200, said.body
    listed = (await client.get(path)).json["items"]
    assert [(f["path"], f["size"]) for f in listed] == [(kept.json["path"], 17)]
    read = await client.get(f"{path}/{kept.json['path']}")
    assert (read.body, read.headers["content-disposition"][:10]) == (b"remember the milk", "attachment")
    events = [event for _, event in await api.app.engine.log(ThreadId(thread))]
    assert any(type(e).__name__ == "FileAttached" for e in events)
    for escape in ("../../retinue.db", "%2e%2e/%2e%2e/retinue.db", "/etc/passwd", "nothing"):
        assert (await client.get(f"{path}/{escape}")).status == 404
    missing = await client.post(f"/v1/threads/{thread}/messages", {"message": "x", "attachments": ["../../retinue.db"]})
    assert missing.status == 404


async def test_a_request_names_only_workspaces_that_the_operator_lists(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "of" / "acme"
    (shared / "project").mkdir(parents=True)
    own.mkdir(parents=True)
    listed = (str(shared), f"{tmp_path}/of/{{tenant}}")
    settings = ServeSettings(workspaces=listed, rate=1e4, burst=10_000)
    async with serving(tmp_path, script, agents=[agent("helper")], tools=[add], serve=settings) as api:
        operator, acme = await api.client(), await api.client(tenant="acme")

        async def ask(client: object, folder: Path) -> int:
            assert client in (operator, acme)
            body = {"agent": "helper", "message": "x", "workspace": str(folder)}
            return (await (operator if client is operator else acme).post("/v1/threads", body)).status

        assert await ask(operator, shared / "project") == 201
        assert await ask(operator, tmp_path) == 400
        assert await ask(operator, shared / ".." / "home") == 400
        assert await ask(acme, own) == 201
        assert await ask(acme, shared) == 400
        assert await ask(operator, own) == 400
    assert not list((tmp_path / "home" / "workspaces").glob("*"))


async def test_bodies_are_checked_and_what_was_sent_is_not_repeated(api: Api) -> None:
    client = await api.client()

    wrong = await client.post("/v1/threads", {"message": "", "env": {"TOKEN": 5}, "no": "such"})

    assert (wrong.status, wrong.json["code"]) == (422, "invalid")
    assert {fault["where"] for fault in wrong.json["errors"]} == {"body.message", "body.env.TOKEN", "body.no"}
    broken = await client.ask(
        "POST", "/v1/threads", data=b'{"message": "\\ud800"}', headers={"Content-Type": "application/json"}
    )
    assert broken.status == 400
    unknown = await client.post("/v1/threads", {"agent": "helpre", "message": "x"})
    assert (unknown.status, unknown.json["code"]) == (404, "agent_not_found")
    assert "did you mean helper" in unknown.json["hint"]
    assert msgspec.json.decode((await client.get("/v1/nothing")).body)["status"] == 404
    assert (await client.ask("PUT", "/v1/threads", {})).headers["allow"] == "GET, POST"


@pytest.mark.spec("API-03")
@pytest.mark.parametrize("levels", [101, 100_000])
async def test_a_body_that_is_nested_too_deep_is_refused(api: Api, levels: int) -> None:
    client, json = await api.client(), {"Content-Type": "application/json"}
    path = "/v1/memory/item?namespace=n&key=k"

    deep = await client.ask("PUT", path, data=b'{"value":' + b"[" * levels + b"]" * levels + b"}", headers=json)
    wide = await client.ask("PUT", path, data=b'{"value":[' + b"[]," * 5000 + b"[]]}", headers=json)

    assert (deep.status, deep.json["code"]) == (400, "bad_request")
    assert wide.status == 200


async def test_a_variable_that_no_program_can_take_is_refused(api: Api) -> None:
    client = await api.client()

    said = await client.post("/v1/threads", {"agent": "helper", "message": "x", "env": {"A": "b\0c"}})

    assert said.status == 422
