"""Chat and Messages against a simulator we did not write, faults included."""

from collections.abc import AsyncIterator, Callable

import pytest

from retinue.models.provider import ProviderConfig, WireModel
from retinue.models.transport import Transport
from retinue.ports.model import Answer, Delta, Head, Request
from retinue.schema.errors import ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Outcome, Text, Thinking, Turn, calls_of, text_of
from retinue.schema.tool import ToolSpec

Aimock = Callable[..., str]
Requests = Callable[[], list[dict[str, object]]]
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
MODELS = {"openai-chat": "gpt-4o", "anthropic": "claude-sonnet-5-5"}
both = pytest.mark.parametrize("format", MODELS)


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    made = Transport()
    yield made
    await made.close()


def model_at(url: str, format: str, transport: Transport) -> WireModel:
    name = "openai-chat" if format == "openai-chat" else "anthropic"
    config = ProviderConfig(name="sim", format=name, base_url=f"{url}/v1", key="KEY")
    return WireModel(config, MODELS[format], transport=transport, env={"KEY": "k"})


def says(text: str) -> Turn:
    return Turn(role="user", parts=(Text(text=text),))


async def ask(
    model: WireModel, *turns: Turn, stream: bool = True, tail: str = "", deltas: list[Delta] | None = None
) -> Answer:
    request = Request(
        head=model.encode_head(Head(system="You add.", tools=(ADD,))),
        turns=[model.encode_turn(turn) for turn in turns],
        tail=tail,
        stream=stream,
    )
    return await model.ask(request, None if deltas is None else deltas.append)


@both
@pytest.mark.spec("MOD-01")
@pytest.mark.parametrize("stream", [True, False])
async def test_text_with_thinking(aimock: Aimock, transport: Transport, format: str, stream: bool) -> None:
    text = "Grüße, 世界! " * 20
    url = aimock({"match": {"userMessage": "hi"}, "response": {"content": text, "reasoning": "hm, hm"}, "chunkSize": 3})
    deltas: list[Delta] = []

    answer = await ask(model_at(url, format, transport), says("hi"), stream=stream, tail="Be kind.", deltas=deltas)

    assert text_of(answer.parts) == text
    assert answer.finish == "stop"
    assert [p.text for p in answer.parts if isinstance(p, Thinking)] == ["hm, hm"]
    if stream:
        assert "".join(d.text for d in deltas if d.kind == "text") == text
        assert "".join(d.text for d in deltas if d.kind == "thinking") == "hm, hm"


@both
async def test_a_character_cut_in_half_costs_no_more_than_itself(
    aimock: Aimock, transport: Transport, format: str
) -> None:
    url = aimock({"match": {}, "response": {"content": "1🐝2"}, "chunkSize": 2})

    answer = await ask(model_at(url, format, transport), says("hi"))

    assert text_of(answer.parts) == "1��2"


@both
@pytest.mark.spec("MOD-01")
@pytest.mark.parametrize("stream", [True, False])
async def test_parallel_calls_and_the_step_after_them(
    aimock: Aimock, aimock_requests: Requests, transport: Transport, format: str, stream: bool
) -> None:
    url = aimock(
        {"match": {"userMessage": "sum", "hasToolResult": True}, "response": {"content": "Done."}},
        {
            "match": {"userMessage": "sum"},
            "response": {"toolCalls": [{"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": {"a": 2}}]},
            "chunkSize": 2,
        },
    )
    model = model_at(url, format, transport)

    first = await ask(model, says("sum"), stream=stream)

    asked = calls_of(first.parts)
    assert [(c.tool, c.arguments.replace(" ", "")) for c in asked] == [("add", '{"a":1}'), ("add", '{"a":2}')]
    assert first.finish == "calls"
    recorded = [
        Call(
            id=CallId(f"00000000-0000-0000-0000-00000000000{i}"), tool=c.tool, arguments=c.arguments, wire_id=c.wire_id
        )
        for i, c in enumerate(asked)
    ]
    outcomes = [Outcome(call=c.id, tool=c.tool, text=str(i)) for i, c in enumerate(recorded)]
    second = await ask(
        model,
        says("sum"),
        Turn(role="assistant", parts=tuple(recorded)),
        Turn(role="user", parts=tuple(outcomes)),
        stream=stream,
    )
    assert text_of(second.parts)
    assert [entry["path"] for entry in aimock_requests()] == [aimock_requests()[0]["path"]] * 2


@both
@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(("status", "transient"), [(400, False), (401, False), (429, True), (500, True), (503, True)])
async def test_refusals(aimock: Aimock, transport: Transport, format: str, status: int, transient: bool) -> None:
    error = {"message": "no, thank you", "type": "some_error"}
    url = aimock({"match": {}, "response": {"error": error, "status": status, "retryAfter": 7}})

    with pytest.raises(ModelError, match="no, thank you") as caught:
        await ask(model_at(url, format, transport), says("hi"))

    assert (caught.value.status, caught.value.transient) == (status, transient)
    assert caught.value.retry_after == (7.0 if status == 429 else None)


@both
@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    "fault",
    [{"truncateAfterChunks": 4}, {"chaos": {"disconnectRate": 1.0}}, {"chaos": {"malformedRate": 1.0}}],
    ids=str,
)
async def test_broken_connections_and_broken_answers_are_transient(
    aimock: Aimock, transport: Transport, format: str, fault: dict[str, object]
) -> None:
    response = {"toolCalls": [{"name": "add", "arguments": {"a": 123456789}}]}
    url = aimock({"match": {}, "response": response, "chunkSize": 2, **fault})

    with pytest.raises(ModelError) as caught:
        await ask(model_at(url, format, transport), says("hi"))

    assert caught.value.transient
