"""What the official compatibility kit asks of the agent under test, test by test, served as its users serve it.

The kit's own ids stand in the docstrings. Like the kit, one run uses the same message ids again and again.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import httpx
import msgspec
import pytest

from support.a2a import SERVE, free_port

pytestmark = pytest.mark.spec("API-05")
ROUTES = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}
NOT_FOUND, NOT_CANCELABLE, UNSUPPORTED, BAD_CONTENT, BAD_VERSION, BAD_PARAMS = (
    ("TASK_NOT_FOUND", -32001, 404),
    ("TASK_NOT_CANCELABLE", -32002, 400),
    ("UNSUPPORTED_OPERATION", -32004, 400),
    ("CONTENT_TYPE_NOT_SUPPORTED", -32005, 400),
    ("VERSION_NOT_SUPPORTED", -32009, 400),
    ("INVALID_PARAMS", -32602, 400),
)
ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")


@dataclass
class Answer:
    """`result` of a success; `error` as reason, JSON-RPC code or None, HTTP status."""

    response: httpx.Response
    result: Any = None
    error: Any = None


@dataclass
class Kit:
    """A client of one binding, as thin as the kit's."""

    binding: str
    url: str
    http: httpx.Client

    def call(self, method: str, headers: Mapping[str, str] | None = None, /, **params: Any) -> Answer:
        response = self.http.send(self._request(method, headers or {}, params))
        return self._read(response)

    @contextmanager
    def stream(self, method: str, **params: Any) -> Generator[Iterator[Any]]:
        """The events, one by one; a refusal is an `Answer` instead of the first."""
        response = self.http.send(self._request(method, {"Accept": "text/event-stream"}, params), stream=True)
        try:
            if not response.headers["content-type"].startswith("text/event-stream"):
                response.read()
                yield iter([self._read(response)])
            else:
                yield self._events(response)
        finally:
            response.close()

    def send(self, prefix: str, task: str = "", **config: Any) -> Any:
        answer = self.call("SendMessage", message=message(prefix, task), configuration=config)
        assert answer.error is None, answer.response.text
        return answer.result

    def asked(self) -> str:
        """The id of a task that wants input."""
        task = self.send("tck-input-required")["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        return task["id"]

    def _events(self, response: httpx.Response) -> Iterator[Any]:
        for line in response.iter_lines():
            if line.startswith("data:"):
                event = msgspec.json.decode(line.removeprefix("data:"))
                if self.binding == "JSONRPC":
                    assert (event["jsonrpc"], event["id"]) == ("2.0", 1)
                    event = event["result"]
                assert len(event) == 1 and next(iter(event)) in ("task", "message", "statusUpdate", "artifactUpdate")
                yield event

    def _request(self, method: str, headers: Mapping[str, str], params: dict[str, Any]) -> httpx.Request:
        if self.binding == "JSONRPC":
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return self.http.build_request("POST", self.url, json=body, headers=headers)
        verb, path = ROUTES[method]
        url = self.url + path.format(**params)
        rest = {name: value for name, value in params.items() if f"{{{name}}}" not in path}
        if verb == "POST":
            return self.http.build_request(verb, url, json=rest, headers=headers)
        return self.http.build_request(verb, url, params=rest, headers=headers)

    def _read(self, response: httpx.Response) -> Answer:
        body: Any = response.json() if response.content else {}
        if "error" not in body:
            assert response.status_code < 300, response.text
            return Answer(response, result=body["result"] if self.binding == "JSONRPC" else body)
        error: Any = body["error"]
        assert isinstance(error["message"], str) and set(error) <= {"code", "message", "data", "details", "status"}
        details: list[Any] = error.get("data" if self.binding == "JSONRPC" else "details", [])
        infos = [detail for detail in details if "reason" in detail]
        for info in infos:
            assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
            assert info["domain"] == "a2a-protocol.org"
        reason = infos[0]["reason"] if infos else None
        if self.binding == "JSONRPC":
            return Answer(response, error=(reason, error["code"], None))
        assert error["code"] == response.status_code
        assert response.headers["content-type"].startswith(("application/json", "application/a2a+json"))
        return Answer(response, error=(reason, None, error["code"]))

    def refusal(self, wanted: tuple[str, int, int]) -> tuple[str | None, int | None, int | None]:
        reason, code, status = wanted
        return (reason, code, None) if self.binding == "JSONRPC" else (reason, None, status)


def message(prefix: str, task: str = "", context: str = "", **fields: Any) -> dict[str, Any]:
    said = {"role": "ROLE_USER", "parts": [{"text": "Hello from the kit"}], "messageId": f"{prefix}-4711", **fields}
    return said | ({"taskId": task} if task else {}) | ({"contextId": context} if context else {})


def state(event: Any) -> str:
    """Of a task or an update; nothing for artifacts."""
    return (event.get("task") or event.get("statusUpdate") or event).get("status", {}).get("state", "")


@pytest.fixture(scope="module")
def served() -> Generator[str]:
    port = free_port()
    command = [sys.executable, str(SERVE), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
            client.get(f"http://127.0.0.1:{port}/.well-known/agent-card.json")
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.fixture(scope="module")
def card(served: str) -> Any:
    return httpx.get(f"{served}/.well-known/agent-card.json").json()


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def kit(request: pytest.FixtureRequest, card: Any) -> Generator[Kit]:
    url = next(i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == request.param)
    with httpx.Client(headers={"A2A-Version": "1.0"}, timeout=30, follow_redirects=True) as http:
        yield Kit(request.param, url, http)


# cards


def test_the_card_has_all_that_cards_must_have(card: Any) -> None:
    """CARD-DISC-001, CARD-STRUCT-001, CARD-PROTO-001 and -002, BIND-FIELD-001."""
    needed = {"name", "description", "version", "capabilities", "skills", "supportedInterfaces"}
    assert needed | {"defaultInputModes", "defaultOutputModes"} <= card.keys()
    assert all(
        {"url", "protocolBinding", "protocolVersion"} == interface.keys() for interface in card["supportedInterfaces"]
    )
    assert card["capabilities"] == {"streaming": True, "pushNotifications": True, "extendedAgentCard": True}
    assert {interface["protocolBinding"] for interface in card["supportedInterfaces"]} == {"JSONRPC", "HTTP+JSON"}


def test_cards_may_be_kept_and_asked_for_again(served: str) -> None:
    """CARD-CACHE-001 and -002."""
    url = f"{served}/.well-known/agent-card.json"
    first = httpx.get(url)
    again = httpx.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert "max-age" in first.headers["cache-control"]
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])


def test_the_extended_card_is_given(kit: Kit) -> None:
    """CARD-EXT-001."""
    assert kit.call("GetExtendedAgentCard").result["name"] == "Compatibility"


# sending


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [
        ("tck-complete-task", "TASK_STATE_COMPLETED"),
        ("tck-input-required", "TASK_STATE_INPUT_REQUIRED"),
        ("tck-auth-required", "TASK_STATE_AUTH_REQUIRED"),
        ("tck-reject-task", "TASK_STATE_REJECTED"),
        ("tck-delayed-complete", "TASK_STATE_COMPLETED"),
        ("tck-jsonrpc-svc-002-ext", "TASK_STATE_COMPLETED"),
    ],
)
def test_a_blocking_send_waits_for_the_state_of_the_prefix(kit: Kit, prefix: str, wanted: str) -> None:
    """CORE-SEND-001, CORE-EXECUTION-MODE-001, AUTH-INTASK-001 and -002."""
    task = kit.send(prefix, returnImmediately=False)["task"]
    assert task["status"]["state"] == wanted
    assert state(kit.call("GetTask", id=task["id"]).result) == wanted


def test_a_send_that_does_not_wait_returns_before_the_end(kit: Kit) -> None:
    """CORE-EXECUTION-MODE-002."""
    assert state(kit.send("tck-delayed-complete", returnImmediately=True)) not in ENDED


@pytest.mark.parametrize(
    ("prefix", "part"),
    [
        ("tck-artifact-text", {"text": "Generated text content"}),
        ("tck-artifact-file", {"raw": "dGNr", "mediaType": "text/plain", "filename": "output.txt"}),
        (
            "tck-artifact-file-url",
            {"url": "https://example.com/output.txt", "mediaType": "text/plain", "filename": "output.txt"},
        ),
        ("tck-artifact-data", {"data": {"key": "value", "count": 42}}),
    ],
)
def test_artifacts_hold_the_part_that_is_asked_for(kit: Kit, prefix: str, part: dict[str, object]) -> None:
    """DM-ART-001, DM-PART-001."""
    (artifact,) = kit.send(prefix)["task"]["artifacts"]
    assert artifact["artifactId"] and artifact["parts"] == [part]


def test_an_answer_may_be_a_message_alone(kit: Kit) -> None:
    """DM-MSG-001, CORE-STREAM-002, CORE-MULTI-001a."""
    answer = kit.send("tck-message-response")["message"]
    with kit.stream("SendStreamingMessage", message=message("tck-message-response")) as events:
        (event,) = events
    assert answer["parts"] == event["message"]["parts"] == [{"text": "Direct message response"}]
    assert all(m["role"] == "ROLE_AGENT" and m["messageId"] and m["contextId"] for m in (answer, event["message"]))


def test_the_wire_has_camel_case_names_words_for_enums_and_zulu_times(kit: Kit) -> None:
    """DM-SERIAL-001 to -003, JSONRPC-FMT-002, HTTP_JSON-SVC-001."""
    answer = kit.call("SendMessage", message=message("tck-dm-test"))
    text = answer.response.text
    assert not re.findall(r'"[a-z]+_[a-z_]+":', text)
    assert set(re.findall(r'"(?:state|role)":"?(\w+)', text)) <= {*ENDED, "ROLE_USER", "ROLE_AGENT"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", answer.result["task"]["status"]["timestamp"])
    media = "application/json" if kit.binding == "JSONRPC" else "application/a2a+json"
    assert answer.response.headers["content-type"].startswith(media)


def test_unknown_fields_and_extensions_are_passed_over(kit: Kit) -> None:
    """DM-SERIAL-005, JSONRPC-SVC-002, HTTP_JSON-SVC-002."""
    headers = {"A2A-Extensions": "https://example.com/ext/v1,https://example.com/ext/v2"}
    said = message("tck-dm-serial-005", tckUnknownField="ignored")
    assert "task" in kit.call("SendMessage", headers, message=said, tckExtraParam=42).result


def test_contexts_are_made_or_kept_and_belong_to_their_tasks(kit: Kit) -> None:
    """CORE-MULTI-001 to -006."""
    made = [kit.send("tck-complete-task")["task"] for _ in "ab"]
    assert len({t["id"] for t in made}) == len({t["contextId"] for t in made}) == 2
    own = kit.call("SendMessage", message=message("tck-complete-task", context="client-context-001")).result["task"]
    assert own["contextId"] == "client-context-001"
    wanting = kit.asked()
    wrong = kit.call("SendMessage", message=message("tck-mismatch", made[0]["id"], "wrong"))
    assert wrong.error == kit.refusal(BAD_PARAMS)
    unknown = kit.call("SendMessage", message=message("tck-multi-004", "nonexistent"))
    assert unknown.error == kit.refusal(NOT_FOUND)
    inferred = kit.send("tck-infer-ctx", wanting)["task"]
    assert (inferred["id"], inferred["status"]["state"]) == (wanting, "TASK_STATE_COMPLETED")


# tasks


def test_a_task_that_ended_takes_nothing_more(kit: Kit) -> None:
    """CORE-GET-001, CORE-SEND-002, CORE-CANCEL-002, STREAM-SUB-003."""
    id = kit.send("tck-complete-task")["task"]["id"]
    assert kit.call("GetTask", id=id).result["id"] == id
    assert kit.call("SendMessage", message=message("tck-terminal", id)).error == kit.refusal(UNSUPPORTED)
    assert kit.call("CancelTask", id=id).error == kit.refusal(NOT_CANCELABLE)
    for method, params in (("SubscribeToTask", {"id": id}), ("SendStreamingMessage", {"message": message("t", id)})):
        with kit.stream(method, **params) as events:
            assert next(events).error == kit.refusal(UNSUPPORTED)


def test_a_task_that_waits_can_be_canceled(kit: Kit) -> None:
    """CORE-CANCEL-001."""
    for prefix in ("tck-input-required", "tck-auth-required"):
        id = kit.send(prefix)["task"]["id"]
        canceled = kit.call("CancelTask", id=id).result
        assert (canceled["id"], state(canceled)) == (id, "TASK_STATE_CANCELED")


def test_there_is_no_such_task(kit: Kit) -> None:
    """CORE-GET-002, CORE-CANCEL-003, STREAM-SUB-004, JSONRPC-ERR-001 to -003, HTTP_JSON-ERR-001 and -002."""
    for method in ("GetTask", "CancelTask"):
        assert kit.call(method, id="tck-nonexistent").error == kit.refusal(NOT_FOUND)
    with kit.stream("SubscribeToTask", id="tck-nonexistent") as events:
        assert next(events).error == kit.refusal(NOT_FOUND)


def test_history_is_as_long_as_asked(kit: Kit) -> None:
    """CORE-HIST-001 to -004."""
    id = kit.asked()
    short = kit.call("SendMessage", message=message("tck-complete-task", id), configuration={"historyLength": 0})
    assert not short.result["task"].get("history")
    lengths = [len(kit.call("GetTask", id=id, historyLength=n).result.get("history", [])) for n in (0, 1, 10)]
    assert lengths == [0, 1, 3]
    odd = "a\0b" if kit.binding == "JSONRPC" else "a%00b"
    assert kit.call("GetTask", id=odd).error == kit.refusal(BAD_PARAMS)
    assert kit.call("GetTask", id=id, historyLength=-1).error == kit.refusal(BAD_PARAMS)


def test_lists_are_paged_newest_first_and_filtered(kit: Kit) -> None:
    """CORE-LIST-001 to -005."""
    context = f"list-{kit.binding}"
    ids = [
        kit.call("SendMessage", message=message(f"tck-artifact-text-{n}", context=context)).result["task"]["id"]
        for n in range(3)
    ]
    first = kit.call("ListTasks", contextId=context, pageSize=2).result
    last = kit.call("ListTasks", contextId=context, pageSize=2, pageToken=first["nextPageToken"]).result
    assert [t["id"] for t in first["tasks"] + last["tasks"]] == ids[::-1]
    assert (last["nextPageToken"], first["totalSize"], first["pageSize"]) == ("", 3, 2)
    assert not any("artifacts" in t for t in first["tasks"])
    full = kit.call("ListTasks", contextId=context, includeArtifacts=True, historyLength=0).result["tasks"]
    assert all(t["artifacts"] and not t.get("history") for t in full)
    times = [t["status"]["timestamp"] for t in full]
    assert times == sorted(times, reverse=True)
    for unfit in ({"status": "TASK_STATE_FAILED"}, {"statusTimestampAfter": "2999-01-01T00:00:00Z"}):
        assert kit.call("ListTasks", contextId=context, **unfit).result["tasks"] == []
    empty = kit.call("ListTasks", contextId="tck-test-context").result
    assert (empty["tasks"], empty["nextPageToken"]) == ([], "")
    for bad in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "odd"}, {"historyLength": -1}):
        assert kit.call("ListTasks", **bad).error == kit.refusal(BAD_PARAMS), bad


# streams


@pytest.mark.parametrize(
    ("prefix", "parts"),
    [
        ("tck-stream-001", [[{"text": "Stream hello from TCK"}]]),
        ("tck-stream-002", None),
        ("tck-stream-003", [[{"text": "Stream task lifecycle"}]]),
        ("tck-stream-ordering-001", [[{"text": "Ordered output"}]]),
        ("tck-stream-artifact-text", [[{"text": "Streamed text content"}]]),
        ("tck-stream-artifact-file", [[{"raw": "dGNr", "mediaType": "text/plain", "filename": "output.txt"}]]),
        ("tck-stream-artifact-chunked", [[{"text": "chunk-1 "}], [{"text": "chunk-2"}]]),
    ],
)
def test_a_stream_goes_from_the_task_to_its_end(kit: Kit, prefix: str, parts: list[object] | None) -> None:
    """CORE-STREAM-001 and -003, STREAM-ORDER-001, JSONRPC-SSE-001, HTTP_JSON-SSE-001."""
    with kit.stream("SendStreamingMessage", message=message(prefix)) as events:
        told = list(events)
    order = {"TASK_STATE_SUBMITTED": 0, "TASK_STATE_WORKING": 1, "TASK_STATE_COMPLETED": 2}
    states = [order[found] for event in told if (found := state(event))]
    updates = [event["artifactUpdate"] for event in told if "artifactUpdate" in event]
    assert "task" in told[0] and state(told[-1]) == "TASK_STATE_COMPLETED"
    assert states == sorted(states)
    assert parts is None or [u["artifact"]["parts"] for u in updates] == parts
    assert [bool(u.get("append")) for u in updates] == [n > 0 for n in range(len(updates))]
    assert [bool(u.get("lastChunk")) for u in updates] == [u is updates[-1] for u in updates]


def test_a_long_task_can_be_subscribed_to_again(kit: Kit) -> None:
    """STREAM-SUB-001 and -002, as the kit's resubscription."""
    with kit.stream("SendStreamingMessage", message=message("test-resubscribe-message-id")) as events:
        id = next(events)["task"]["id"]
    with kit.stream("SubscribeToTask", id=id) as events:
        told = list(events)
    assert "task" in told[0] and state(told[0]) not in ENDED
    assert state(told[-1]) == "TASK_STATE_COMPLETED"


def test_all_streams_of_a_task_hear_the_same_although_one_leaves(kit: Kit) -> None:
    """STREAM-ORDER-002 to -004, STREAM-SUB-002."""
    id, told = kit.asked(), [list[Any](), list[Any]()]
    with kit.stream("SubscribeToTask", id=id) as leaving:
        assert "task" in next(leaving)
    ready = threading.Barrier(3, timeout=20)

    def listen(heard: list[Any]) -> None:
        with kit.stream("SubscribeToTask", id=id) as events:
            heard.append(next(events))
            ready.wait()
            heard.extend(events)

    threads = [threading.Thread(target=listen, args=(heard,)) for heard in told]
    for thread in threads:
        thread.start()
    ready.wait()
    kit.send("tck-complete-task", id)
    for thread in threads:
        thread.join(timeout=20)
    assert told[0] == told[1] and len(told[0]) > 1
    assert (state(told[0][0]), state(told[0][-1])) == ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED")


# push notifications


def test_push_configs_are_made_kept_listed_and_deleted(kit: Kit) -> None:
    """PUSH-CREATE-001 and -002, PUSH-GET-001 and -002, PUSH-LIST-001, PUSH-DEL-001 and -002."""
    task = kit.send("tck-complete-task")["task"]["id"]
    config = {"taskId": task, "id": "tck-push", "url": "https://example.com/tck-push-webhook"}
    made = kit.call("CreateTaskPushNotificationConfig", **config).result
    assert made == kit.call("GetTaskPushNotificationConfig", taskId=task, id="tck-push").result
    assert (made["id"], made["url"], made["taskId"]) == (config["id"], config["url"], task)
    assert kit.call("ListTaskPushNotificationConfigs", taskId=task).result["configs"] == [made]
    missing = kit.call("GetTaskPushNotificationConfig", taskId=task, id="tck-nonexistent")
    assert missing.error == kit.refusal(NOT_FOUND)
    for _ in "ab":
        assert kit.call("DeleteTaskPushNotificationConfig", taskId=task, id="tck-push").error is None
    assert kit.call("GetTaskPushNotificationConfig", taskId=task, id="tck-push").error == kit.refusal(NOT_FOUND)
    assert kit.call("ListTaskPushNotificationConfigs", taskId="tck-none").error == kit.refusal(NOT_FOUND)


def test_webhooks_of_this_machine_are_told_with_their_credentials(kit: Kit) -> None:
    """PUSH-DELIVER-001 to -003: the kit listens at a port that nobody knows before."""
    came = Queue[tuple[str | None, Any]]()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.put((self.headers["Authorization"], msgspec.json.decode(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://localhost:{server.server_address[1]}/webhook"
            config = {"id": "p", "url": url, "authentication": {"scheme": "Bearer", "credentials": "tck"}}
            task = kit.send("tck-input-required", taskPushNotificationConfig=config)["task"]["id"]
            kit.send("tck-complete-task", task)
            told = [came.get(timeout=15)]
            while state(told[-1][1]) not in ENDED:
                told.append(came.get(timeout=15))
        finally:
            server.shutdown()
            thread.join()
    assert {authorization for authorization, _ in told} == {"Bearer tck"}
    assert all(len(event) == 1 and ("statusUpdate" in event or "artifactUpdate" in event) for _, event in told)


# refusals


def test_media_that_the_agent_does_not_take_is_refused(kit: Kit) -> None:
    """CORE-SEND-003."""
    odd = [{"raw": "dGNr", "mediaType": "application/x-unsupported-tck-type"}]
    answer = kit.call("SendMessage", message=message("tck-send-003", parts=odd))
    assert answer.error == kit.refusal(BAD_CONTENT)


@pytest.mark.parametrize(("version", "is_fine"), [("1.0", True), ("1.0.7", True), ("99.0", False), ("odd", False)])
def test_versions_are_negotiated_by_their_first_two_numbers(kit: Kit, version: str, is_fine: bool) -> None:
    """VER-SERVER-001 and -002, VER-CLIENT-002."""
    answer = kit.call("SendMessage", {"A2A-Version": version}, message=message("tck-ver-002"))
    assert answer.error == (None if is_fine else kit.refusal(BAD_VERSION))
    if not is_fine:
        with kit.stream("SubscribeToTask", id="tck-none") as events:
            assert next(events).error is not None


def test_no_version_means_0_3(card: Any) -> None:
    """VER-SERVER-003."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message("tck-ver-003")}}
    answer = httpx.post(card["supportedInterfaces"][0]["url"], json=body, headers={"A2A-Version": ""}).json()
    assert answer["error"]["code"] == -32009


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"not json", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "NonExistentMethod", "params": {}}', -32601),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "GetTask", "params": {}}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "params": {}}', -32600),
        (b"[]", -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"role": "ROLE_USER"}}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": 7}}', -32602),
    ],
)
def test_calls_that_make_no_sense_have_the_code_of_their_mistake(card: Any, body: bytes, code: int) -> None:
    """CORE-ERR-001 and -002, JSONRPC-ERR-001."""
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    answer = httpx.post(card["supportedInterfaces"][0]["url"], content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"not json", b"\xff\xfe", b"[1]", b'{"message": {"role": "ROLE_USER", "parts": []}}'),
        b'{"message": {"role": "ROLE_USER", "parts": [{}], "messageId": "m"}}',
        b'{"message": {"role": "ROLE_USER", "parts": [{"text": "hi"}], "messageId": "m", "contextId": "a\\u0000b"}}',
    ],
)
@pytest.mark.parametrize("path", ["/message:send", "/message:stream"])
def test_bodies_that_make_no_sense_are_bad_requests(card: Any, path: str, body: bytes) -> None:
    """CORE-ERR-002, HTTP_JSON-ERR-001."""
    url = next(i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == "HTTP+JSON")
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    answer = httpx.post(f"{url}{path}", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)
