"""Another agent takes the thread over: what its model is told of the past, on every wire format."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from aiohttp import web

from retinue.app.retinue import Retinue
from retinue.app.settings import ProviderSettings, Settings, SettingsFile, Tier
from retinue.models.formats import FormatName
from retinue.runtime.deps import Tuning
from retinue.schema.agent import AgentDefinition
from support.agents import add, agent

CALLS = (("add", {"a": 1, "b": 2}), ("handoff_billing", {"reason": "money"}))
"""What the first agent's model says, step by step; then the second one answers."""
Body = dict[str, object]
Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"


def chat(call: tuple[str, Mapping[str, object]] | None) -> Body:
    message: Body = {"role": "assistant", "content": None if call else "Billing here."}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message["tool_calls"] = [{"id": f"c_{call[0]}", "type": "function", "function": function}]
    usage = {"prompt_tokens": 9, "completion_tokens": 3}
    return {"choices": [{"message": message, "finish_reason": "tool_calls" if call else "stop"}], "usage": usage}


def responses(call: tuple[str, Mapping[str, object]] | None) -> Body:
    item: Body = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Billing here."}]}
    if call:
        item = {"type": "function_call", "call_id": f"c_{call[0]}", "name": call[0], "arguments": json.dumps(call[1])}
    usage = {"input_tokens": 9, "output_tokens": 3}
    return {"id": "r", "status": "completed", "output": [{"id": "i", "status": "completed", **item}], "usage": usage}


def messages(call: tuple[str, Mapping[str, object]] | None) -> Body:
    block: Body = {"type": "text", "text": "Billing here."}
    if call:
        block = {"type": "tool_use", "id": f"t_{call[0]}", "name": call[0], "input": call[1]}
    return {
        "type": "message",
        "role": "assistant",
        "content": [block],
        "stop_reason": "tool_use" if call else "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


def generate(call: tuple[str, Mapping[str, object]] | None) -> Body:
    part: Body = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": "Billing here."}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}}


Wire = Callable[[tuple[str, Mapping[str, object]] | None], Body]
WIRES: dict[FormatName, tuple[Wire, str, str, str]] = {
    "openai-chat": (chat, "tools.*.function.name", "messages.*.tool_calls.*.function.name", "messages.*.tool_call_id"),
    "openai-responses": (responses, "tools.*.name", "input.*.name", "input.*.output"),
    "anthropic": (messages, "tools.*.name", "messages.*.content.*.name", "messages.*.content.*.tool_use_id"),
    "gemini": (
        generate,
        "tools.*.functionDeclarations.*.name",
        "contents.*.parts.*.functionCall.name",
        "contents.*.parts.*.functionResponse.name",
    ),
}
"""For each format how it answers, and where a request holds tools, the calls of the past, and their outcomes."""


def found(value: Json, path: str) -> list[Json]:
    """Everything at a path, `*` for every member of a list; what is not there is left out."""
    values = [value]
    for step in path.split("."):
        if step == "*":
            values = [member for each in values if isinstance(each, list) for member in each]
        else:
            values = [each[step] for each in values if isinstance(each, dict) and step in each]
    return values


@asynccontextmanager
async def answering(wire: Wire, sent: list[Json]) -> AsyncGenerator[str]:
    """A provider that says what it was told to, one request after the other."""

    async def answer(request: web.Request) -> web.Response:
        sent.append(await request.json())
        step = len(sent) - 1
        return web.json_response(wire(CALLS[step] if step < len(CALLS) else None))

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def agents() -> list[AgentDefinition]:
    return [
        agent("front", "add", allowed_agents=("billing",), can_spawn_subagents=True),
        agent("billing", expose_as_tool=True, description="Knows about money."),
    ]


@pytest.mark.spec("SUB-15", "MOD-01")
@pytest.mark.parametrize("format", WIRES)
async def test_the_new_agents_model_is_told_of_every_tool_that_the_history_holds_calls_of(
    tmp_path: Path, format: FormatName
) -> None:
    """Providers refuse a history with calls of tools that the request does not declare."""
    wire, tools, calls, outcomes = WIRES[format]
    sent: list[Json] = []
    async with answering(wire, sent) as url:
        provider = ProviderSettings(format=format, base_url=url, key="env(KEY)")
        file = SettingsFile(providers={"mock": provider}, default_model="mock/some")
        settings = Settings(home=tmp_path, root=tmp_path, user=Tier(name="user", settings=file))
        async with Retinue(
            agents=agents(),
            tools=[add],
            settings=settings,
            data_dir=tmp_path,
            workspace=tmp_path,
            environ={"KEY": "secret"},
            tuning=Tuning(titles=False),
        ) as app:
            completion = await app.run("front", "my bill")
    assert (completion.result, completion.agent) == ("Billing here.", "billing")
    before, _, after = sent
    assert {"add", "handoff_billing"} <= set(found(before, tools))
    assert found(after, calls) == ["add", "handoff_billing"]
    assert len(found(after, outcomes)) == 2
    assert {"add", "handoff_billing"} <= set(found(after, tools))
    assert json.dumps(after).count("Not available any more.") == 2
    assert "You are billing." in json.dumps(after)
    assert "You are front." not in json.dumps(after)
