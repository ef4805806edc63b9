"""The A2A surface, spoken to by the official SDK's client over both bindings."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest
from a2a.client.client import Client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from retinue.app.settings import ServeSettings
from retinue.asgi.app import create
from retinue.models.script import CallTool, Say
from retinue.schema.agent import OutputSpec
from retinue.schema.ids import DEFAULT_TENANT
from retinue.testing.harness import scripted_app
from retinue.web.served import served
from support.a2a import a2a_server, agent, listening

pytestmark = pytest.mark.spec("API-05")
BINDINGS = ["JSONRPC", "HTTP+JSON"]
_OLD_PART = {"kind": "text", "text": "hi"}
HANGS = Say(latency=30.0, text="late")


def message(text: str = "hello", *, id: str = "m1", task: str = "", context: str = "") -> SendMessageRequest:
    said = Message(message_id=id, role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task, context_id=context)
    return SendMessageRequest(message=said)


async def events(stream: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    async with asyncio.timeout(20):
        return [event async for event in stream]


async def sent(client: Client, request: SendMessageRequest) -> Task:
    """The task after all that a message causes."""
    told = await events(client.send_message(request))
    id = next(e.task.id for e in told if e.HasField("task"))
    return await client.get_task(GetTaskRequest(id=id))


def words(told: list[StreamResponse]) -> list[str]:
    found: list[str] = []
    for event in told:
        kind = event.WhichOneof("payload") or ""
        if kind == "status_update":
            kind = TaskState.Name(event.status_update.status.state)
        if kind == "task":
            kind = f"task {TaskState.Name(event.task.status.state)}"
        if kind == "artifact_update":
            kind = "".join(part.text for part in event.artifact_update.artifact.parts)
        found.append(kind.replace("TASK_STATE_", ""))
    return found


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_task_runs_to_its_artifact(tmp_path: Path, binding: str, streaming: bool) -> None:
    async with a2a_server(tmp_path, ["Good day."], agent("sales/greeter")) as server:
        client = await server.client("sales/greeter", binding=binding, streaming=streaming)
        task = await sent(client, message())
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert [[part.text for part in a.parts] for a in task.artifacts] == [["Good day."]]
    assert [(m.role, m.message_id) for m in task.history] == [(Role.ROLE_USER, "m1")]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_begins_with_the_task_and_grows_the_result(tmp_path: Path, binding: str) -> None:
    said = Say(text="one two three", chunks=["one ", "two ", "three"], latency=0.2, pace=0.05)
    async with a2a_server(tmp_path, [said], agent("greeter")) as server:
        client = await server.client("greeter", binding=binding)
        told = await events(client.send_message(message()))
    found = words(told)
    assert found[0].startswith("task ") and found[-1] == "COMPLETED"
    updates = [e.artifact_update for e in told if e.HasField("artifact_update")]
    assert "".join(p.text for u in updates for p in u.artifact.parts) == "one two three"
    assert [u.append for u in updates] == [False, *[True] * (len(updates) - 1)]
    assert [u.last_chunk for u in updates] == [*[False] * (len(updates) - 1), True]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_question_is_input_required_and_the_next_message_answers_it(tmp_path: Path, binding: str) -> None:
    script = [CallTool("request_user_input", {"prompt": "Which city?"}), "It rains in {{last_outcome}}."]
    async with a2a_server(tmp_path, script, agent("weather")) as server:
        client = await server.client("weather", binding=binding)
        asked = await sent(client, message())
        assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert [part.text for part in asked.status.message.parts] == ["Which city?"]
        answered = await sent(client, message("Bergen", id="m2", task=asked.id))
        again = await sent(client, message("Bergen", id="m2", task=asked.id))
    assert answered.status.state == TaskState.TASK_STATE_COMPLETED
    assert [p.text for a in answered.artifacts for p in a.parts] == ["It rains in Bergen."]
    assert [m.message_id for m in answered.history][::2] == ["m1", "m2"]
    assert again == answered


@pytest.mark.parametrize("binding", BINDINGS)
async def test_only_the_operator_gives_a_permission_and_the_caller_is_told_to_wait(
    tmp_path: Path, binding: str
) -> None:
    script = [CallTool("bash", {"command": "curl https://example.com"}), "Done."]
    async with a2a_server(tmp_path, script, agent("coder")) as server:
        client = await server.client("coder", binding=binding)
        told = await events(client.send_message(message()))
        id = told[0].task.id
        again = await sent(client, message("I allow it", id="m2", task=id))
        found = await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_AUTH_REQUIRED))
        watching = client.subscribe(SubscribeToTaskRequest(id=id))
        first = await anext(watching)
        ((_, question),) = await server.app.engine.runtime.store.questions(DEFAULT_TENANT)
        await server.app.engine.answer(question.id, "no", scope="deny")
        rest = await events(watching)
    assert words(told)[-1] == words([first])[0].removeprefix("task ") == "AUTH_REQUIRED"
    assert again.status.state == TaskState.TASK_STATE_AUTH_REQUIRED
    assert "curl" not in str(again.status.message) and [t.id for t in found.tasks] == [id]
    assert words(rest)[0] == "WORKING" and words(rest)[-1] == "COMPLETED"


async def test_a_failed_run_is_failed_and_says_why(tmp_path: Path) -> None:
    failing = CallTool("complete_agent_execution", {"result": "No such invoice.", "status": "FAILED"})
    async with a2a_server(tmp_path, [failing], agent("books", completion="explicit")) as server:
        task = await sent(await server.client("books"), message())
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert [p.text for p in task.status.message.parts] == ["No such invoice."]


async def test_structured_results_are_data_parts(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    call = CallTool("complete_agent_execution", {"result": {"total": 12}, "status": "SUCCESS"})
    definition = agent("books", completion="explicit", output=OutputSpec(schema=schema))
    async with a2a_server(tmp_path, [call], definition) as server:
        task = await sent(await server.client("books"), message())
    assert [p.data.struct_value["total"] for a in task.artifacts for p in a.parts] == [12]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_cancel_ends_a_task_for_good(tmp_path: Path, binding: str) -> None:
    async with a2a_server(tmp_path, [HANGS], agent("slow")) as server:
        client = await server.client("slow", binding=binding, streaming=False)
        request = message()
        request.configuration.return_immediately = True
        task = (await events(client.send_message(request)))[0].task
        canceled = await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(UnsupportedOperationError):
            await sent(client, message(id="m2", task=task.id))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED


@pytest.mark.parametrize("binding", BINDINGS)
async def test_whoever_subscribes_gets_the_task_and_all_that_follows(tmp_path: Path, binding: str) -> None:
    script = [CallTool("request_user_input", {"prompt": "Well?"}), "Fine."]
    async with a2a_server(tmp_path, script, agent("asker")) as server:
        client = await server.client("asker", binding=binding)
        asked = await sent(client, message())
        streams = [client.subscribe(SubscribeToTaskRequest(id=asked.id)) for _ in "ab"]
        firsts = [await anext(stream) for stream in streams]
        await sent(client, message("yes", id="m2", task=asked.id))
        one, two = [[first, *await events(rest)] for first, rest in zip(firsts, streams, strict=True)]
        with pytest.raises(UnsupportedOperationError):
            await events(client.subscribe(SubscribeToTaskRequest(id=asked.id)))
    assert words(one)[0] == "task INPUT_REQUIRED" and words(one)[-1] == "COMPLETED"
    assert one[-1] == two[-1] and words(one)[:2] == words(two)[:2]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_lists_hold_the_callers_own_tasks_page_by_page(tmp_path: Path, binding: str) -> None:
    async with a2a_server(tmp_path, {"*": ["ok"]}, agent("one"), agent("two")) as server:
        client = await server.client("one", binding=binding)
        mine = [(await sent(client, message(id=f"m{n}", context="c"))).id for n in range(3)]
        other = (await sent(await server.client("two", binding=binding), message())).id
        for token in ("bob", "eve"):
            foreign = await server.client("one", token=token, binding=binding)
            assert (await foreign.list_tasks(ListTasksRequest())).total_size == 0
            with pytest.raises(TaskNotFoundError):
                await foreign.get_task(GetTaskRequest(id=mine[0]))
        first = await client.list_tasks(ListTasksRequest(page_size=2, context_id="c"))
        wanted = ListTasksRequest(page_size=2, context_id="c", page_token=first.next_page_token)
        second = await client.list_tasks(wanted)
        none = await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_CANCELED))
        with pytest.raises(InvalidParamsError):
            await client.list_tasks(ListTasksRequest(page_token="nonsense"))
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=other))
    assert [t.id for t in (*first.tasks, *second.tasks)] == mine[::-1]
    assert (first.total_size, second.next_page_token, len(none.tasks)) == (3, "", 0)
    assert not any(t.artifacts for t in first.tasks)


async def test_the_same_message_in_the_same_context_is_the_same_task(tmp_path: Path) -> None:
    async with a2a_server(tmp_path, ["ok"], agent("one")) as server:
        client = await server.client("one")
        tasks = {(await sent(client, message(context="c"))).id for _ in range(2)}
        others = {(await sent(client, message())).id for _ in range(2)}
    assert (len(tasks), len(others)) == (1, 2)


async def test_requests_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async with a2a_server(tmp_path, {"*": ["ok"]}, agent("one")) as server:
        client = await server.client("one")
        task = await sent(client, message())
        with pytest.raises(InvalidParamsError):
            await sent(client, message(id="m2", task=task.id, context="wrong"))
        with pytest.raises(TaskNotFoundError):
            await sent(client, message(task="nothing"))
        odd = message()
        odd.message.parts[0].media_type = "application/x-odd"
        with pytest.raises(ContentTypeNotSupportedError):
            await sent(client, odd)


async def test_exposure_is_the_flag_the_list_or_a_prefix_and_blocked_wins(tmp_path: Path) -> None:
    serve = ServeSettings(exposed=("listed",), exposed_prefixes=("team/",), blocked=("team/secret", "flagged-blocked"))
    hidden = agent("hidden", exposed=False)
    shown = [agent("flagged"), agent("listed", exposed=False), agent("team/a", exposed=False)]
    blocked = [agent("team/secret"), agent("flagged-blocked")]
    async with a2a_server(tmp_path, ["ok"], hidden, *shown, *blocked, serve=serve) as server:
        http = await server.http()
        directory = (await http.get("/a2a/.well-known/agent-card.json")).json()
        for definition in (hidden, *blocked):
            assert (await http.get(f"/a2a/{definition.id}/.well-known/agent-card.json")).status_code == 404
            assert (await http.post(f"/a2a/{definition.id}/message:send", json={})).status_code >= 400
        card = (await http.get("/a2a/team/a/.well-known/agent-card.json")).json()
    assert sorted(skill["id"] for skill in directory["skills"]) == ["flagged", "listed", "team/a"]
    assert card["supportedInterfaces"][0]["url"] == f"{server.url}/a2a/team/a"
    assert "You are" not in msgspec.json.encode(card).decode()


async def test_cards_are_public_and_everything_else_wants_a_key(tmp_path: Path) -> None:
    definition = agent("one", examples=("Say hi",))
    async with a2a_server(tmp_path, ["ok"], definition) as server:
        stranger = await server.http("nobody")
        del stranger.headers["authorization"]
        card = (await stranger.get("/.well-known/agent-card.json")).json()
        refused = await stranger.post("/a2a/one/message:send", json={})
        extended = await (await server.client("one")).get_extended_agent_card(GetExtendedAgentCardRequest())
    assert card["skills"][0]["examples"] == ["Say hi"]
    assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
    assert extended.name == "one"


async def test_the_directory_sends_a_message_to_the_agent_it_names(tmp_path: Path) -> None:
    async with a2a_server(tmp_path, {"one": ["I am one."], "two": ["I am two."]}, agent("one"), agent("two")) as server:
        http = await server.http()
        said = {"role": "ROLE_USER", "parts": [{"text": "hi"}], "messageId": "m"}
        named = await http.post("/a2a/message:send", json={"message": {**said, "metadata": {"agent": "two"}}})
        unnamed = await http.post("/a2a/message:send", json={"message": said})
    assert named.json()["task"]["artifacts"][0]["parts"] == [{"text": "I am two."}]
    assert unnamed.status_code == 400 and "one, two" in unnamed.text


async def test_protocol_0_3_is_understood_where_the_setting_says_so(tmp_path: Path) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "message/send",
        "params": {"message": {"role": "user", "kind": "message", "messageId": "m", "parts": [_OLD_PART]}},
    }
    for old, wanted in ((True, "completed"), (False, None)):
        async with a2a_server(tmp_path / str(old), ["ok"], agent("one"), serve=ServeSettings(a2a_03=old)) as server:
            http = await server.http(version="0.3")
            answer = (await http.post("/a2a/one", json=body)).json()
        assert answer.get("result", {}).get("status", {}).get("state") == wanted


async def test_a_task_survives_the_server(tmp_path: Path) -> None:
    script = [CallTool("request_user_input", {"prompt": "Well?"}), "Fine."]
    async with a2a_server(tmp_path, script, agent("asker")) as server:
        asked = await sent(await server.client("asker"), message())
    async with a2a_server(tmp_path, script, agent("asker")) as server:
        answered = await sent(await server.client("asker"), message("yes", id="m2", task=asked.id))
    assert (answered.id, answered.context_id) == (asked.id, asked.context_id)
    assert answered.status.state == TaskState.TASK_STATE_COMPLETED


async def test_the_server_of_all_surfaces_wants_an_api_key(tmp_path: Path) -> None:
    async with scripted_app(tmp_path, ["Good day."], agents=[agent("one")]) as app:
        serving = served(app, ServeSettings())
        token = (await serving.keyring.create("partner", ["threads:write"])).token
        async with listening(create(serving)) as port, httpx.AsyncClient(trust_env=False) as http:
            url = f"http://127.0.0.1:{port}"
            body = {"message": {"role": "ROLE_USER", "parts": [{"text": "hi"}], "messageId": "m"}}
            card = (await http.get(f"{url}/a2a/one/.well-known/agent-card.json")).json()
            refused = await http.post(f"{url}/a2a/one/message:send", json=body)
            headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
            done = await http.post(f"{url}/a2a/one/message:send", json=body, headers=headers)
            serving.close()
    assert (card["name"], refused.status_code) == ("one", 401)
    assert done.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
