"""Two tenants, every route: what is another's is as unknown as what never was."""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from retinue.app.settings import ServeSettings, SettingsFile
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.schema.agent import Immediate, Subagent
from support.agents import agent
from support.serving import Answer, Client, serving

AGENTS = [
    agent("asker", "request_user_input"),
    agent("parent", subagents=(Subagent(name="asker", immediate=Immediate(scoped_env=("TOKEN",))),)),
]
CUSTOM = {
    "Name": "Canary",
    "Slug": "canary",
    "Description": "canary",
    "ProviderId": "p",
    "ModelId": "m",
    "SystemPrompt": "canary",
}
BODIES: dict[str, Any] = {
    "agents_update": {"description": "taken over"},
    "threads_send": {"message": "taken over"},
    "threads_fork": {},
    "threads_give_variables": {"variables": {"TOKEN": "x"}},
    "questions_answer": {"answer": "taken over"},
    "memory_save": {"value": "taken over"},
}
QUERIES = {"threads_upload": "?name=a.txt", "agents_resolve": "?name=canary"}
LISTS = {
    *("agents_list_agents", "threads_list_threads", "questions_list_questions", "memory_list_memory"),
    *("repositories_list_repositories", "keys_list_keys", "server_usage"),
}
OWN = {"agents_create", "threads_create", "runs_run", "keys_create", "server_metrics"}
"""They name nothing that could be another's."""
OPEN = {"server_health", "server_readiness", "webhooks_webhook"}
"""They need no key."""


def script(_: ScriptedRequest) -> Say:
    return Say(calls=[CallTool("request_user_input", {"prompt": "canary?"})])


async def event(client: Client, thread: str, kind: str) -> Any:
    async with client.stream(f"/v1/threads/{thread}/events") as stream:
        async for found in stream:
            if found.kind == kind:
                return found.data["event"]


async def belongings(client: Client) -> dict[str, str]:
    """One of everything."""
    thread = (await client.post("/v1/threads", {"agent": "asker", "message": "canary"})).json["id"]
    question = await event(client, thread, "question.asked")
    parent = (await client.post("/v1/threads", {"agent": "parent", "message": "canary"})).json["id"]
    variables = await event(client, parent, "variables.requested")
    file = await client.ask("POST", f"/v1/threads/{thread}/files?name=canary.txt", data=b"canary")
    custom = await client.post("/v1/agents", CUSTOM)
    assert custom.status == 201, custom.body
    await client.ask("PUT", "/v1/memory/item?namespace=asker&key=canary", {"value": "canary"})
    return {
        "thread": thread,
        "question": question["id"],
        "parent": parent,
        "request": variables["request"],
        "path": file.json["path"],
        "agent": "canary",
        "key": client.token.split("_")[1],
        "name": "team",
    }


MISSING = {
    "thread": "00000000-0000-4000-8000-000000000000",
    "question": "00000000-0000-4000-8000-000000000001",
    "parent": "00000000-0000-4000-8000-000000000002",
    "request": "00000000-0000-4000-8000-000000000003",
    "path": "attachments/nothing.txt",
    "agent": "nothing",
    "key": "000000000000",
    "name": "nothing",
}


def requests(document: Any) -> dict[str, tuple[str, str]]:
    """Every operation of the document: id → method and path; those that S4 has without a version also so."""
    found = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    plain = {f"{id}/": (method, path.removeprefix("/v1")) for id, (method, path) in found.items() if "variables" in id}
    assert len(plain) == 2
    return {**found, **plain}


async def ask(client: Client, id: str, method: str, path: str, values: dict[str, str]) -> Answer:
    if "variables" in id:
        values = {**values, "thread": values["parent"]}
    filled = re.sub(r"\{(\w+)\}", lambda found: quote(values[found[1]]), path)
    if id in ("memory_load", "memory_save", "memory_forget"):
        filled += "?namespace=asker&key=" + ("canary" if values["agent"] == "canary" else "nothing")
    body = BODIES.get(id.rstrip("/"))
    data = b"taken over" if id == "threads_upload" else None
    return await client.ask(method, filled + QUERIES.get(id, ""), body, data=data)


def plain(answer: Answer, values: dict[str, str]) -> tuple[int, str]:
    text = answer.body.decode()
    for value in values.values():
        text = text.replace(value, "ID")
    return answer.status, re.sub(r"'canary'|'nothing'", "'ID'", text)


@pytest.mark.spec("API-03")
async def test_a_foreign_id_answers_exactly_like_a_missing_one_on_every_route(tmp_path: Path) -> None:
    settings = SettingsFile(
        repositories=({"name": "team", "gitUrl": str(tmp_path / "none"), "authType": "none", "isActive": False},),
        local_repositories=True,
        serve=ServeSettings(rate=1e4, burst=10_000, stream_seconds=0.2),
    )
    environ = {"PATH": os.environ["PATH"]}
    async with serving(tmp_path, script, agents=AGENTS, settings=settings, environ=environ) as api:
        owner, other = await api.client(tenant="acme"), await api.client(tenant="globex")
        operator = await api.client()
        mine = await belongings(owner)
        operations = requests((await other.get("/openapi.json")).json)
        crossing = operations.keys() - LISTS - OWN - OPEN
        before = {id: await ask(owner, id, *operations[id], mine) for id in crossing if operations[id][0] == "GET"}

        for id in sorted(crossing - {"memory_save", "agents_resolve"}):
            foreign = await ask(other, id, *operations[id], mine)
            missing = await ask(other, id, *operations[id], MISSING)
            assert foreign.status == 404, (id, foreign.body)
            assert plain(foreign, mine) == plain(missing, MISSING), id
        assert (await other.get("/v1/agents/resolve?name=canary")).status == 404
        for client in (other, operator):
            for id in sorted(LISTS):
                shown = (await client.get(operations[id][1])).body.decode()
                found = [name for name in (mine["thread"], mine["parent"], "canary", mine["key"]) if name in shown]
                assert not found, (id, found)
        saved = await ask(other, "memory_save", *operations["memory_save"], mine)
        assert saved.status == 200  # its own item of the same name
        for id, seen in before.items():
            now = await ask(owner, id, *operations[id], mine)
            assert id == "threads_events" or _same(now, seen), id
            assert seen.status == (404 if id.startswith("repositories_") else 200), id


def _same(now: Answer, seen: Answer) -> bool:
    """But for the clock."""
    return re.sub(r'"seconds":[\d.]+', "", now.body.decode()) == re.sub(r'"seconds":[\d.]+', "", seen.body.decode())


@pytest.mark.spec("API-03")
async def test_what_a_tenant_starts_runs_with_its_own_custom_agents(tmp_path: Path) -> None:
    """Also what its agents start: a name means what it means to the tenant."""
    boss = agent("boss", "call_agent", can_spawn_subagents=True, category="primary", allowed_agents=("canary",))

    def script(request: ScriptedRequest) -> Say:
        if request.agent == "boss" and request.step == 1:
            arguments = {"agent_name": "canary", "input": "x", "context_scope": "NONE"}
            return Say(calls=[CallTool("call_agent", arguments)])
        if request.agent == "canary":
            return Say(calls=[CallTool("complete_agent_execution", {"result": request.system, "status": "SUCCESS"})])
        return Say(text=request.outcomes[-1].text)

    async with serving(tmp_path, script, agents=[boss]) as api:
        acme, globex = await api.client(tenant="acme"), await api.client(tenant="globex")
        for client, prompt in ((acme, "You are Acme's."), (globex, "You are of Globex.")):
            made = await client.post("/v1/agents", {**CUSTOM, "SystemPrompt": prompt, "use_default_prefix": False})
            assert made.status == 201

        said = [(await c.post("/v1/runs", {"agent": "boss", "message": "go"})).json for c in (acme, globex)]
        stranger = await (await api.client(tenant="third")).post("/v1/runs", {"agent": "boss", "message": "go"})

    assert ["You are Acme's." in said[0]["completion"]["result"], "Acme" in said[1]["completion"]["result"]] == [
        True,
        False,
    ]
    assert "You are of Globex." in said[1]["completion"]["result"]
    assert "Acme" not in stranger.json["completion"]["result"]
