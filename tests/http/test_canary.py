"""Planted secrets are nowhere but where they are used: not in logs, database, files, events, answers or traces."""

import base64
import hashlib
import hmac
import logging
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from retinue.app.settings import ProviderSettings, ServeSettings, SettingsFile
from retinue.app.telemetry import telemetry
from retinue.models.script import CallTool, Fault, Say, ScriptedRequest
from retinue.schema.agent import Immediate, Subagent
from retinue.tools.function import tool
from support.agents import agent
from support.serving import Answer, Client, serving

PROVIDER, HOOK, THREAD, SCOPED = "sk-canary-provider-1", "canary-webhook-2", "canary-thread-3", "canary-scoped-4"


@tool(effect="read")
def leak() -> str:
    """Tell what no tool should tell."""
    return f"key={PROVIDER} b64={base64.b64encode(PROVIDER.encode()).decode()} hook={quote(HOOK)}"


AGENTS = [
    agent("leaker", "leak"),
    agent("parent", subagents=(Subagent(name="worker", immediate=Immediate(scoped_env=("TOKEN",))),)),
    agent("worker", completion="response"),
]


def script(request: ScriptedRequest) -> Say | Fault:
    if request.message == "fail":
        return Fault("error", text=f"the provider said: bad key {PROVIDER}", status=401)
    if request.agent == "leaker" and not request.outcomes:
        return Say(calls=[CallTool("leak")])
    return Say(text="done")


class Recording:
    """A client that remembers every answer."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.seen: list[bytes] = []

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        answer = await self.client.ask(method, path, body, headers=headers)
        self.seen += [answer.body, repr(answer.headers).encode()]
        return answer


def forms(secret: str) -> list[bytes]:
    data = secret.encode()
    return [data, base64.b64encode(data).rstrip(b"="), data.hex().encode()]


@pytest.mark.spec("PERM-09", "SUB-17", "API-03")
async def test_planted_secrets_are_found_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = SettingsFile(
        providers={"openai": ProviderSettings(format="openai-chat", key="env(OPENAI_API_KEY)")},
        repositories=({"name": "team", "gitUrl": str(tmp_path / "none"), "webhookSecret": "env(HOOK)"},),
        local_repositories=True,
        serve=ServeSettings(rate=1e4, burst=10_000, stream_seconds=1.0),
    )
    environ = {"OPENAI_API_KEY": PROVIDER, "HOOK": HOOK}
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    with caplog.at_level(logging.DEBUG):
        async with serving(tmp_path, script, agents=AGENTS, tools=[leak], settings=settings, environ=environ) as api:
            runtime = api.app.engine.runtime
            runtime.live.taps.append(telemetry(content=True, redact=runtime.redact, tracers=tracers))
            operator = Recording(await api.client())
            made = await api.served.keyring.create("second", ["threads:write"], tenant="acme")
            for message in ("go", "fail"):
                body = {"agent": "leaker", "message": message, "env": {"DEPLOY": THREAD}}
                run = (await operator.ask("POST", "/v1/runs", body, **{"Idempotency-Key": message})).json
                for part in ("", "/messages", "/events?live=false", "/export", "/export.md", "/tree", "/files"):
                    await operator.ask("GET", f"/v1/threads/{run['thread']}{part}")
            parent = (await operator.ask("POST", "/v1/threads", {"agent": "parent", "message": "x"})).json["id"]
            request = await _requested(operator.client, parent)
            path = f"/v1/threads/{parent}/variables/{request}"
            await operator.ask("POST", path, {"variables": {"WRONG": SCOPED}})
            await operator.ask("POST", path, {"variables": {"TOKEN": 5}})
            await operator.ask("POST", path, {"variables": {"TOKEN": SCOPED}}, **{"Idempotency-Key": "v"})
            push = msgspec.json.encode({"ref": "refs/heads/main", "after": "a" * 40})
            signature = hmac.new(HOOK.encode(), push, hashlib.sha256).hexdigest()
            for header in (
                {"X-Hub-Signature-256": f"sha256={signature}"},
                {"X-Gitlab-Token": HOOK},
                {"X-Gitlab-Token": "x"},
            ):
                sent = await operator.client.ask(
                    "POST", "/v1/webhooks/team", data=push, headers={**header, "X-GitHub-Event": "push"}
                )
                operator.seen.append(sent.body)
            for path in ("/v1/keys", "/v1/agents?view=all", "/v1/agents/parent", "/v1/repositories", "/v1/questions"):
                await operator.ask("GET", path)
            await operator.ask("GET", "/v1/metrics")
            bad = api.with_token(made.token[:-1] + "?")
            await bad.get(f"/v1/threads?cursor={THREAD}")
            await operator.client.get("/v1/syncs/team")
            operator.seen.append((await operator.client.post("/v1/syncs/team")).body)
            tokens = [operator.client.token, made.token]
            kept = [f.read_bytes() for f in api.app.data.rglob("*") if f.is_file()]
            await api.app.idle()
        kept += [f.read_bytes() for f in api.app.data.rglob("*") if f.is_file()]
    tracers.shutdown()
    traces = repr([(s.name, s.attributes, s.events) for s in exporter.get_finished_spans()]).encode()
    places = {"log": [caplog.text.encode()], "disk": kept, "answers": operator.seen, "traces": [traces]}

    assert b"[secret OPENAI_API_KEY]" in b"".join(operator.seen) and b"[secret" in traces
    for secret in (PROVIDER, HOOK, THREAD, SCOPED, *tokens, *(token.split("_", 2)[2] for token in tokens)):
        for form in forms(secret):
            found = [place for place, texts in places.items() if any(form in text for text in texts)]
            assert not found, (secret, form, found)


async def _requested(client: Client, thread: str) -> str:
    async with client.stream(f"/v1/threads/{thread}/events") as stream:
        async for event in stream:
            if event.kind == "variables.requested":
                return event.data["event"]["request"]
    raise AssertionError("no variables were asked for")
