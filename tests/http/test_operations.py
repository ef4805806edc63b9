"""What holds for every operation, generated from the operations themselves: a new one can't be forgotten."""

import re
from pathlib import Path
from typing import Any

import pytest

from retinue.app.settings import ServeSettings, SettingsFile
from retinue.http.api import operations
from retinue.http.routing import WRITES, Operation
from retinue.models.script import CallTool, Say
from retinue.schema.agent import Immediate, Subagent
from retinue.web.scopes import SCOPES, covers
from support.agents import agent
from support.serving import Answer, Api, Client, serving

NOBODY = "00000000-0000-4000-8000-000000000000"
LAST = ("threads_cancel", "threads_terminate", "memory_forget", "agents_delete", "keys_revoke")
"""What ends a thing comes after what needs it."""
CUSTOM = {"Name": "N", "Slug": "mine", "ProviderId": "p", "ModelId": "m", "SystemPrompt": "You are mine."}
BODIES: dict[str, Any] = {
    "agents_create": {**CUSTOM, "Slug": "another"},
    "agents_update": {"description": "changed"},
    "runs_run": {"agent": "asker", "message": "x", "wait": 0},
    "threads_create": {"agent": "asker", "message": "x"},
    "threads_send": {"message": "x"},
    "threads_fork": {},
    "threads_give_variables": {"variables": {"TOKEN": "x"}},
    "questions_answer": {"answer": "x"},
    "memory_save": {"value": 1},
    "keys_create": {"name": "another", "scopes": ["threads:read"]},
}
QUERIES = {
    "threads_upload": "?name=a.txt",
    "memory_save": "?namespace=n&key=k",
    "memory_forget": "?namespace=n&key=k",
    "memory_load": "?namespace=n&key=k",
    "agents_resolve": "?name=asker",
}


def name(operation: Operation) -> str:
    return f"{operation.tag}_{operation.endpoint.__name__}"


async def ask(client: Client, operation: Operation, values: dict[str, str], **headers: str) -> Answer:
    path = re.sub(r"\{(\w+)(:path)?\}", lambda found: values.get(found[1], NOBODY), operation.path)
    body, data = BODIES.get(name(operation)), b"bytes" if name(operation) == "threads_upload" else None
    return await client.ask(operation.method, path + QUERIES.get(name(operation), ""), body, data=data, headers=headers)


@pytest.mark.spec("API-03")
async def test_no_operation_is_carried_out_without_a_key_of_its_scope(api: Api) -> None:
    stranger = api.with_token("")
    for operation in operations():
        if operation.scope is None:
            continue
        powerless = [scope for scope in SCOPES if not covers([scope], operation.scope)]
        others = await api.client(*powerless)

        unknown, refused = await ask(stranger, operation, {}), await ask(others, operation, {})

        assert (unknown.status, unknown.headers["www-authenticate"][:6]) == (401, "Bearer"), name(operation)
        assert (refused.status, refused.json["code"]) == (403, "scope"), name(operation)


@pytest.mark.spec("API-03")
async def test_every_write_with_a_key_for_it_happens_once(tmp_path: Path) -> None:
    settings = SettingsFile(
        repositories=({"name": "team", "gitUrl": str(tmp_path / "none"), "authType": "none"},),
        local_repositories=True,
        serve=ServeSettings(rate=1e4, burst=10_000),
    )
    asks = Say(calls=[CallTool("request_user_input", {"prompt": "which?"})])
    deferred = (Subagent(name="asker", immediate=Immediate(scoped_env=("TOKEN",))),)
    agents = [agent("asker", "request_user_input"), agent("parent", subagents=deferred)]
    async with serving(tmp_path, lambda _: asks, agents=agents, settings=settings) as api:
        client = await api.client()
        values = await _things(client)
        writes = [operation for operation in operations() if operation.method in WRITES and operation.scope]
        for operation in sorted(writes, key=lambda op: (LAST.index(name(op)) if name(op) in LAST else -1, name(op))):
            of = {**values, "thread": values["parent"]} if "variables" in name(operation) else values
            malformed = await ask(client, operation, of, **{"Idempotency-Key": "a key"})
            once = await ask(client, operation, of, **{"Idempotency-Key": name(operation)})
            again = await ask(client, operation, of, **{"Idempotency-Key": name(operation)})

            assert malformed.status == 400, name(operation)
            assert once.status < 300, (name(operation), once.body)
            assert (again.status, again.body) == (once.status, once.body), name(operation)
            assert again.headers.get("idempotent-replayed") == "true", name(operation)


async def _things(client: Client) -> dict[str, str]:
    """One of everything that can be written to."""
    thread = (await client.post("/v1/threads", {"agent": "asker", "message": "x"})).json["id"]
    parent = (await client.post("/v1/threads", {"agent": "parent", "message": "x"})).json["id"]
    assert (await client.post("/v1/agents", CUSTOM)).status == 201
    key = (await client.post("/v1/keys", {"name": "k", "scopes": ["threads:read"]})).json["key"]["id"]
    return {
        "thread": thread,
        "question": (await _event(client, thread, "question.asked"))["id"],
        "parent": parent,
        "request": (await _event(client, parent, "variables.requested"))["request"],
        "agent": "mine",
        "key": key,
        "name": "team",
    }


async def _event(client: Client, thread: str, kind: str) -> Any:
    async with client.stream(f"/v1/threads/{thread}/events") as stream:
        async for found in stream:
            if found.kind == kind:
                return found.data["event"]


@pytest.mark.spec("API-03")
async def test_the_page_of_the_api_needs_nothing_from_elsewhere(api: Api) -> None:
    page = await api.with_token("").get("/docs")
    text = page.body.decode()

    assert page.headers["content-security-policy"].startswith("default-src 'none'; connect-src 'self'")
    assert not re.search(r"(?:src|href|url|import)\s*[=(]\s*[\"']?(?:https?:)?//", text)
    assert "/openapi.json" in text
