"""OpenAI Responses: what is sent, and what every kind of answer becomes."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.models.failures import classify
from retinue.models.openai_responses import OpenAIResponses
from retinue.models.provider import ProviderConfig, WireModel
from retinue.models.sse import Splitter
from retinue.models.transport import Transport
from retinue.models.wire import Format
from retinue.ports.model import Answer, Delta, Finish, Head, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn
from retinue.schema.tool import ToolSpec

pytestmark = pytest.mark.spec("MOD-01")

FORMAT: Format = OpenAIResponses()
MODEL = "gpt-5.4"
READ = ToolSpec(name="read", description="Reads.", parameters={"type": "object", "properties": {}})
REASONING: dict[str, object] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def head(value: Head, model: str = MODEL) -> dict[str, object]:
    request = Request(head=FORMAT.encode_head(value, model), turns=(), stream=False)
    sent: dict[str, object] = json.loads(FORMAT.body(request, model))
    assert sent.pop("input") == []
    return sent


def items(role: str, *parts: Part, model: str = MODEL) -> list[object]:
    turn = Turn(role="user" if role == "user" else "assistant", parts=parts)
    return json.loads(b"[" + FORMAT.encode_turn(turn, model).data + b"]")


def opaque(value: object, model: str = MODEL, form: str = "openai-responses") -> Opaque:
    return Opaque(format=form, model=model, data=msgspec.Raw(json.dumps(value).encode()))


def stream(*events: dict[str, object]) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def read(*reads: bytes, deltas: list[Delta] | None = None) -> Answer:
    splitter, reader = Splitter(), FORMAT.reader(MODEL, None if deltas is None else deltas.append)
    for piece in reads:
        for data in splitter.feed(piece):
            reader.feed(data)
            reader.flush()
    return reader.answer()


def completed(*output: object, status: str = "completed", **fields: object) -> dict[str, object]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 30},
        "total_tokens": 140,
    }
    response = {"id": "resp_1", "status": status, "output": output, "usage": usage, **fields}
    return {"type": f"response.{status}", "response": response}


USAGE = Usage(input=100, output=40, cache_read=60, cache_write=5, thinking=30)


def message(text: str, **fields: object) -> dict[str, object]:
    content = [{"type": "output_text", "text": text, "annotations": list[str]()}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **fields}


def call(name: str, arguments: str, call_id: str = "call_1") -> dict[str, object]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}


def test_a_head_becomes_instructions_tools_and_settings() -> None:
    full = Head(
        system="Be brief.",
        tools=(READ,),
        max_tokens=1000,
        reasoning_effort="low",
        temperature=0.5,
        parallel_tool_calls=False,
        tool_choice="required",
        output_schema=b'{"type":"object"}',
        options=b'{"service_tier":"flex","reasoning":{"summary":"detailed"}}',
    )

    assert head(full) == {
        "model": MODEL,
        "store": False,
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 1000,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "detailed"},
        "text": {"format": {"type": "json_schema", "name": "result", "strict": False, "schema": {"type": "object"}}},
        "service_tier": "flex",
    }


def test_a_model_that_does_not_reason_gets_sampling_and_no_encrypted_reasoning() -> None:
    sent = head(Head(system="", temperature=0.5, top_p=0.9), "gpt-4.1-mini")

    assert sent == {"model": "gpt-4.1-mini", "store": False, "temperature": 0.5, "top_p": 0.9}


def test_a_user_turn_becomes_outputs_and_one_message() -> None:
    picture = Media(mime="image/png", data="iVBO")
    sent = items(
        "user",
        Outcome(call=CallId("c1"), tool="read", text="one"),
        Outcome(call=CallId("c2"), tool="shot", text="here", media=(picture,)),
        Outcome(call=CallId("c3"), tool="bash", status="denied"),
        Text(text="Look."),
        picture,
        Media(mime="application/pdf", data="JVBE", name="a.pdf"),
        Media(mime="image/png", path="b.png"),
    )

    assert sent == [
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [
                {"type": "input_text", "text": "here"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBO"},
            ],
        },
        {"type": "function_call_output", "call_id": "c3", "output": "denied"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBO"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
                {"type": "input_text", "text": "[image/png file b.png]"},
            ],
        },
    ]


def test_reasoning_and_phase_go_back_to_the_model_that_made_them() -> None:
    parts = (
        Thinking(text="Hm.", opaque=opaque(REASONING)),
        Text(text="Let me look.", opaque=opaque({"phase": "commentary"})),
        Call(id=CallId("c1"), tool="read", arguments='{"path":"a"}', wire_id="call_9"),
    )
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]}
    called = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'}

    assert items("assistant", *parts) == [REASONING, {**said, "phase": "commentary"}, called]
    assert items("assistant", *parts, model="gpt-5.4-mini") == [said, called]


def test_opaque_data_of_another_format_is_dropped() -> None:
    foreign = Thinking(text="Hm.", opaque=opaque(REASONING, form="anthropic"))

    assert items("assistant", foreign) == []


def test_reasoning_that_led_to_nothing_is_not_sent_back() -> None:
    assert items("assistant", Thinking(text="", opaque=opaque(REASONING))) == []


def test_a_body_is_the_head_the_turns_and_the_tail() -> None:
    turns = (
        Turn(role="user", parts=(Text(text="Hi"),)),
        Turn(role="assistant", parts=(Thinking(text="lost"),)),
        Turn(role="user", parts=(Text(text="Go"),)),
    )
    request = Request(
        head=FORMAT.encode_head(Head(system="S"), MODEL),
        turns=[FORMAT.encode_turn(t, MODEL) for t in turns],
        tail="One child runs.",
    )

    def said(text: str) -> object:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    assert json.loads(FORMAT.body(request, MODEL)) == {
        "model": MODEL,
        "store": False,
        "instructions": "S",
        "include": ["reasoning.encrypted_content"],
        "input": [said("Hi"), said("Go"), said("One child runs.")],
        "stream": True,
    }
    assert FORMAT.path(MODEL, stream=True) == "/responses"
    assert FORMAT.headers("k", MODEL) == {"Authorization": "Bearer k"}
    assert FORMAT.headers(None, MODEL) == {}


EVENTS: Sequence[dict[str, object]] = (
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "part": {}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Fi"},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "rst"},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1, "part": {}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "Then"},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {
            **REASONING,
            "status": "completed",
            "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "Then"}],
        },
    },
    {"type": "response.output_item.added", "output_index": 1, "item": message("", phase="commentary")},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "naïve "},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "🐝"},
    {"type": "response.output_text.annotation.added", "output_index": 1, "delta": {"not": "text"}},
    {"type": "response.output_item.done", "output_index": 1, "item": message("naïve 🐝", phase="commentary")},
    {"type": "response.output_item.added", "output_index": 2, "item": call("read", "", "call_a")},
    {"type": "response.output_item.added", "output_index": 3, "item": call("bash", "", "call_b")},
    {"type": "response.function_call_arguments.delta", "output_index": 3, "delta": '{"comm'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"path":'},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"path":"a"}'},
    {"type": "response.output_item.done", "output_index": 3, "item": call("bash", '{"command":"ls"}', "call_b")},
    {"type": "response.output_item.done", "output_index": 2, "item": call("read", '{"path":"a"}', "call_a")},
    completed(),
)
STREAM = b": keep-alive\n\n" + stream(*EVENTS)
ANSWER = Answer(
    parts=(
        Thinking(
            text="First\n\nThen",
            opaque=Opaque(
                format="openai-responses",
                model=MODEL,
                data=msgspec.Raw(
                    b'{"type":"reasoning","id":"rs_1","summary":[{"type": "summary_text", "text": "First"}, '
                    b'{"type": "summary_text", "text": "Then"}],"encrypted_content":"gAAA"}'
                ),
            ),
        ),
        Text(
            text="naïve 🐝",
            opaque=Opaque(format="openai-responses", model=MODEL, data=msgspec.Raw(b'{"phase":"commentary"}')),
        ),
        Call(id=CallId(""), tool="read", arguments='{"path":"a"}', wire_id="call_a"),
        Call(id=CallId(""), tool="bash", arguments='{"command":"ls"}', wire_id="call_b"),
    ),
    finish="calls",
    usage=USAGE,
    raw_finish="completed",
)


def test_a_stream_folds_into_thinking_text_and_parallel_calls() -> None:
    deltas: list[Delta] = []

    assert read(STREAM, deltas=deltas) == ANSWER
    assert "".join(d.text for d in deltas if d.kind == "thinking") == "First\n\nThen"
    assert "".join(d.text for d in deltas if d.kind == "text") == "naïve 🐝"
    assert [(d.text, d.index) for d in deltas if d.kind == "call"] == [("read", 0), ("bash", 1)]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_however_the_network_cuts_the_bytes_the_answer_is_the_same(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]

    assert read(*(STREAM[a:b] for a, b in pairwise(at))) == ANSWER


def test_every_stream_that_is_cut_before_its_end_is_a_transient_failure() -> None:
    for end in range(0, len(STREAM), 97):
        with pytest.raises(ModelError) as caught:
            read(STREAM[:end])
        assert caught.value.transient


def test_an_answer_that_did_not_stream_is_the_same() -> None:
    output = [e["item"] for e in EVENTS if e["type"] == "response.output_item.done"]
    output[2], output[3] = output[3], output[2]
    body = json.dumps(completed(*output)["response"]).encode()

    assert FORMAT.parse(body, MODEL) == ANSWER


def test_what_was_thought_goes_back_as_it_came() -> None:
    sent = items("assistant", *ANSWER.parts)

    assert sent[0] == {
        **REASONING,
        "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "Then"}],
    }


def test_reasoning_without_anything_to_send_back_keeps_its_summary_only() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]}

    assert read(stream(completed(item, message("x")))).parts == (Thinking(text="Hm"), Text(text="x"))


@pytest.mark.parametrize(
    ("event", "finish", "raw"),
    [
        (completed(message("a")), "stop", "completed"),
        (
            completed(message("a"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "length",
            "max_output_tokens",
        ),
        (
            completed(message("a"), status="incomplete", incomplete_details={"reason": "content_filter"}),
            "filtered",
            "content_filter",
        ),
        (
            completed(message("a"), status="incomplete", incomplete_details={"reason": "bored"}),
            "other",
            "bored",
        ),
        (completed({**message(""), "content": [{"type": "refusal", "refusal": "a"}]}), "refusal", "completed"),
        (completed(message("a"), {"type": "web_search_call", "id": "ws", "action": {}}), "stop", "completed"),
    ],
)
def test_how_an_answer_ended(event: dict[str, object], finish: Finish, raw: str) -> None:
    assert read(stream(event)) == Answer(parts=(Text(text="a"),), finish=finish, usage=USAGE, raw_finish=raw)


@pytest.mark.parametrize(
    ("event", "transient", "kind"),
    [
        ({"type": "error", "code": "server_error", "message": "Oh no"}, True, ModelError),
        ({"type": "error", "error": {"type": "rate_limit_exceeded", "message": "Slow down"}}, True, ModelError),
        ({"type": "error", "message": "Oh no"}, True, ModelError),
        (completed(status="failed", error={"code": "invalid_prompt", "message": "No"}), False, ModelError),
        (completed(status="failed", error={"code": "server_error", "message": "Oh no"}), True, ModelError),
        (
            completed(
                status="failed",
                error={"code": "context_length_exceeded", "message": "Your input exceeds the context window."},
            ),
            False,
            ContextOverflow,
        ),
    ],
)
def test_a_failure_inside_a_stream_says_whether_to_try_again(
    event: dict[str, object], transient: bool, kind: type[ModelError]
) -> None:
    with pytest.raises(ModelError) as caught:
        read(stream(event))

    assert (type(caught.value), caught.value.transient) == (kind, transient)


@pytest.mark.parametrize(
    "event",
    [
        completed(status="failed"),
        {"type": "error", "code": "server_is_overloaded", "message": "Later", "param": None},
        {"type": "", "error": {"code": 529, "message": "Overloaded"}},
    ],
)
def test_a_failure_that_says_little_is_worth_another_try(event: dict[str, object]) -> None:
    with pytest.raises(ModelError) as caught:
        read(stream(event))

    assert caught.value.transient


def test_an_event_of_a_kind_we_do_not_know_is_passed_over() -> None:
    unknown: dict[str, object] = {"type": "response.audio.delta", "delta": {"x": [1]}, "item": 7, "response": None}

    assert read(stream(unknown, completed(message("a")))).parts == (Text(text="a"),)


def test_a_rate_limit_inside_a_stream_says_how_long_to_wait() -> None:
    failure = {"code": "rate_limit_exceeded", "message": "Rate limit reached. Please try again in 1.5s."}
    with pytest.raises(ModelError) as caught:
        read(stream(completed(status="failed", error=failure)))

    assert (caught.value.status, caught.value.retry_after) == (429, 1.5)


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"type":"response.completed","response":[]}'])
def test_what_is_no_event_of_ours_never_becomes_an_answer(data: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        read(b"data: " + data + b"\n\n")

    assert caught.value.transient


def test_an_overflow_is_told_by_its_words() -> None:
    words = "Your input exceeds the context window of this model. Please adjust your input and try again."
    body = json.dumps({"error": {"message": words, "type": "invalid_request_error", "code": None}}).encode()

    assert isinstance(classify(400, {}, body), ContextOverflow)


async def ask(url: str, *turns: Turn, streamed: bool = True) -> Answer:
    config = ProviderConfig(name="sim", format="openai-responses", base_url=f"{url}/v1", key=lambda: "key")
    transport = Transport()
    model = WireModel(config, MODEL, transport=transport, env={})
    head = model.encode_head(Head(system="S", tools=(READ,)))
    try:
        return await model.ask(Request(head=head, turns=[model.encode_turn(t) for t in turns], stream=streamed))
    finally:
        await transport.close()


HELLO = Turn(role="user", parts=(Text(text="hello"),))


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_simulator_talks_reasons_and_calls(aimock: Callable[..., str], streamed: bool) -> None:
    url = aimock(
        {
            "match": {"userMessage": "hello"},
            "response": {
                "content": "Let me see.",
                "reasoning": "I should look.",
                "toolCalls": [{"name": "read", "arguments": '{"path":"a.txt"}', "id": "call_1"}],
                "usage": {"input_tokens": 12, "output_tokens": 7},
            },
            "chunkSize": 3,
        }
    )
    answer = await ask(url, HELLO, streamed=streamed)

    assert [(type(p), getattr(p, "text", None)) for p in answer.parts[:2]] == [
        (Thinking, "I should look."),
        (Text, "Let me see."),
    ]
    assert answer.parts[2:] == (Call(id=CallId(""), tool="read", arguments='{"path":"a.txt"}', wire_id="call_1"),)
    assert (answer.finish, answer.usage) == ("calls", Usage(input=12, output=7))
    thinking = answer.parts[0]
    assert isinstance(thinking, Thinking)
    assert thinking.opaque is not None
    assert b"encrypted_content" in bytes(thinking.opaque.data)


async def test_the_simulator_sees_the_outcome_of_its_call(
    aimock: Callable[..., str], aimock_requests: Callable[[], list[dict[str, object]]]
) -> None:
    url = aimock({"match": {"toolResultContains": "forty-two"}, "response": {"content": "It is 42."}})
    called = Turn(role="assistant", parts=(Call(id=CallId("c1"), tool="read", arguments="{}"),))
    outcome = Turn(role="user", parts=(Outcome(call=CallId("c1"), tool="read", text="forty-two"),))

    assert (await ask(url, HELLO, called, outcome)).parts[-1] == Text(text="It is 42.")
    assert len(aimock_requests()) == 1


async def test_the_simulator_limits_the_rate(aimock: Callable[..., str]) -> None:
    url = aimock(
        {
            "match": {"userMessage": "hello"},
            "response": {
                "error": {"message": "Slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"},
                "status": 429,
                "retryAfter": 7,
            },
        }
    )
    with pytest.raises(ModelError) as caught:
        await ask(url, HELLO)

    assert (caught.value.status, caught.value.transient, caught.value.retry_after) == (429, True, 7.0)


async def test_the_simulator_hangs_up_in_the_middle(aimock: Callable[..., str]) -> None:
    url = aimock(
        {
            "match": {"userMessage": "hello"},
            "response": {"content": "A rather long answer that will be cut."},
            "chunkSize": 2,
            "truncateAfterChunks": 6,
        }
    )
    with pytest.raises(ModelError) as caught:
        await ask(url, HELLO)

    assert caught.value.transient
