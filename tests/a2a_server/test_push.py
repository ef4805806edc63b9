"""Push notifications, delivered to a server of this machine."""

import asyncio
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import GetTaskPushNotificationConfigRequest, TaskPushNotificationConfig
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retinue.models.script import CallTool
from support.a2a import a2a_server, agent, listening

pytestmark = pytest.mark.spec("API-05")
SAID = {"role": "ROLE_USER", "parts": [{"text": "hi"}], "messageId": "m"}


async def test_updates_are_delivered_in_order_with_the_callers_credentials(tmp_path: Path) -> None:
    came: asyncio.Queue[tuple[str, dict[str, object]]] = asyncio.Queue()

    async def hook(request: Request) -> Response:
        await came.put((request.headers.get("authorization", ""), await request.json()))
        return Response()

    async with listening(Starlette(routes=[Route("/hook", hook, methods=["POST"])])) as port:
        allow = (f"127.0.0.1:{port}",)
        async with a2a_server(tmp_path, ["Good day."], agent("one"), allow=allow) as server:
            config = {
                "url": f"http://127.0.0.1:{port}/hook",
                "authentication": {"scheme": "Bearer", "credentials": "planted-secret"},
            }
            body = {"message": SAID, "configuration": {"taskPushNotificationConfig": config}}
            await (await server.http()).post("/a2a/one/message:send", json=body)
            async with asyncio.timeout(10):
                told = [await came.get() for _ in range(3)]
        database = b"".join(path.read_bytes() for path in (tmp_path / "home").glob("retinue.db*"))
    assert {auth for auth, _ in told} == {"Bearer planted-secret"}
    assert [next(iter(event)) for _, event in told] == ["statusUpdate", "artifactUpdate", "statusUpdate"]
    assert b"planted-secret" not in database


async def test_delivery_goes_on_after_a_restart_where_it_was(tmp_path: Path) -> None:
    """What was not taken before the server ended is delivered by the next one; what was taken is not sent again."""
    came: asyncio.Queue[str] = asyncio.Queue()
    is_open, refused = True, asyncio.Event()

    async def hook(request: Request) -> Response:
        (kind, told), *_ = (await request.json()).items()
        if not is_open:
            refused.set()
            return Response(status_code=503)
        await came.put(told.get("status", {}).get("state", kind).removeprefix("TASK_STATE_"))
        return Response()

    script = [CallTool("request_user_input", {"prompt": "Well?"}), "Fine."]
    async with listening(Starlette(routes=[Route("/hook", hook, methods=["POST"])])) as port, asyncio.timeout(20):
        allow, config = (f"127.0.0.1:{port}",), {"url": f"http://127.0.0.1:{port}/hook", "token": "t"}
        async with a2a_server(tmp_path, script, agent("one"), allow=allow) as server:
            http = await server.http()
            body = {"message": SAID, "configuration": {"taskPushNotificationConfig": config}}
            task = (await http.post("/a2a/one/message:send", json=body)).json()["task"]["id"]
            before = [await came.get(), await came.get()]
            is_open = False
            answer = {"message": {**SAID, "messageId": "m2", "taskId": task}}
            await http.post("/a2a/one/message:send", json=answer)
            await refused.wait()
        is_open = True
        async with a2a_server(tmp_path, script, agent("one"), allow=allow):
            after = [await came.get() for _ in range(3)]
    assert (before, after) == (["WORKING", "INPUT_REQUIRED"], ["WORKING", "artifactUpdate", "COMPLETED"])
    assert came.empty()


async def test_an_address_inside_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    async with a2a_server(tmp_path, ["ok"], agent("one")) as server:
        http = await server.http()
        task = (await http.post("/a2a/one/message:send", json={"message": SAID})).json()["task"]["id"]
        for url in ("http://127.0.0.1/hook", "http://169.254.169.254/latest"):
            refused = await http.post(f"/a2a/one/tasks/{task}/pushNotificationConfigs", json={"url": url})
            assert refused.status_code == 400, refused.text


async def test_configs_are_kept_listed_and_deleted(tmp_path: Path) -> None:
    script = [CallTool("request_user_input", {"prompt": "Well?"}), "Fine."]
    async with a2a_server(tmp_path, script, agent("one"), allow=("127.0.0.1:9",)) as server:
        http = await server.http()
        task = (await http.post("/a2a/one/message:send", json={"message": SAID})).json()["task"]["id"]
    async with a2a_server(tmp_path, script, agent("one"), allow=("127.0.0.1:9",)) as server:
        client = await server.client("one")
        made = await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task, id="p", url="http://127.0.0.1:9/hook")
        )
        again = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task, id="p")
        )
        http = await server.http()
        path = f"/a2a/one/tasks/{task}/pushNotificationConfigs"
        assert (await http.delete(f"{path}/p")).status_code == 200
        assert (await http.delete(f"{path}/p")).status_code == 200
        left = (await http.get(path)).json()
    assert made == again
    assert left.get("configs", []) == []
