"""Gemini: what is sent, and what every kind of answer becomes."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.models.failures import classify
from retinue.models.gemini import Gemini
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

FORMAT: Format = Gemini()
MODEL = "gemini-3.1-pro"
OLDER = "gemini-2.5-flash"
READ = ToolSpec(name="read", description="Reads.", parameters={"type": "object", "properties": {}})
PICTURE = Media(mime="image/png", data="iVBO")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}
SKIP = "skip_thought_signature_validator"


def signed(signature: str, model: str = MODEL, form: str = "gemini") -> Opaque:
    data = json.dumps({"thoughtSignature": signature}, separators=(",", ":")).encode()
    return Opaque(format=form, model=model, data=msgspec.Raw(data))


def head(value: Head, model: str = MODEL) -> dict[str, object]:
    request = Request(head=FORMAT.encode_head(value, model), turns=())
    sent: dict[str, object] = json.loads(FORMAT.body(request, model))
    assert sent.pop("contents") == []
    return sent


def content(role: str, *parts: Part, model: str = MODEL) -> dict[str, object]:
    turn = Turn(role="user" if role == "user" else "assistant", parts=parts)
    return json.loads(FORMAT.encode_turn(turn, model).data)


def chunk(*parts: Mapping[str, object], finish: str | None = None, **fields: object) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": MODEL, **fields}


def stream(*chunks: object) -> bytes:
    return b"".join(f"data: {json.dumps(c)}\r\n\r\n".encode() for c in chunks)


def read(*reads: bytes, deltas: list[Delta] | None = None) -> Answer:
    splitter, reader = Splitter(), FORMAT.reader(MODEL, None if deltas is None else deltas.append)
    for piece in reads:
        for data in splitter.feed(piece):
            reader.feed(data)
            reader.flush()
    for data in splitter.finish():
        reader.feed(data)
    return reader.answer()


def test_a_head_becomes_instruction_tools_and_configuration() -> None:
    full = Head(
        system="Be brief.",
        tools=(READ,),
        temperature=0.5,
        top_p=0.9,
        max_tokens=1000,
        reasoning_effort="low",
        tool_choice="required",
        output_schema=b'{"type":"object"}',
        options=b'{"safetySettings":[],"generationConfig":{"seed":7},"contents":["not yours"],"tools":["neither"]}',
    )

    assert head(full) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read",
                        "description": "Reads.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxOutputTokens": 1000,
            "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
            "seed": 7,
        },
        "safetySettings": [],
    }


def test_a_head_without_anything_is_empty() -> None:
    assert head(Head(system="")) == {}


@pytest.mark.parametrize(
    ("value", "model", "config"),
    [
        (Head(system="", thinking_budget=512), MODEL, {"thinkingBudget": 512, "includeThoughts": True}),
        (Head(system="", thinking_budget=0), OLDER, {"thinkingBudget": 0, "includeThoughts": False}),
        (Head(system="", reasoning_effort="medium"), OLDER, {"thinkingBudget": 8192, "includeThoughts": True}),
        (Head(system="", reasoning_effort="high"), MODEL, {"thinkingLevel": "high", "includeThoughts": True}),
    ],
)
def test_thinking_is_asked_for_as_each_generation_wants_it(value: Head, model: str, config: object) -> None:
    assert head(value, model)["generationConfig"] == {"thinkingConfig": config}


def test_an_older_model_gets_no_schema_beside_tools() -> None:
    both = Head(system="", tools=(READ,), output_schema=b"{}")

    assert "generationConfig" not in head(both, OLDER)
    assert "generationConfig" in head(Head(system="", output_schema=b"{}"), OLDER)


def test_a_user_turn_is_one_content_with_outcomes_first() -> None:
    parts = (
        Outcome(call=CallId("c1"), tool="read", text="one"),
        Outcome(call=CallId("c2"), tool="shot", text="here", media=(PICTURE,)),
        Outcome(call=CallId("c3"), tool="bash", status="denied", text="not today"),
        Text(text="Look."),
        PICTURE,
        Media(mime="image/png", path="b.png"),
    )
    one = {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "one"}}}
    two = {"id": "c2", "name": "shot", "response": {"output": "here"}}
    three = {"functionResponse": {"id": "c3", "name": "bash", "response": {"error": "denied: not today"}}}
    rest = [{"text": "Look."}, INLINE, {"text": "[image/png file b.png]"}]

    assert content("user", *parts) == {
        "role": "user",
        "parts": [one, {"functionResponse": {**two, "parts": [INLINE]}}, three, *rest],
    }
    assert content("user", *parts, model=OLDER) == {
        "role": "user",
        "parts": [one, {"functionResponse": two}, three, INLINE, *rest],
    }


def test_signatures_go_back_on_their_parts_to_the_model_that_made_them() -> None:
    parts = (
        Thinking(text="Hm.", opaque=signed("s0")),
        Thinking(text="unsigned"),
        Text(text="Looking.", opaque=signed("s1")),
        Call(id=CallId("c1"), tool="read", arguments='{"path":"a"}', opaque=signed("s2")),
        Call(id=CallId("c2"), tool="read", arguments="{broken"),
    )
    first = {"id": "c1", "name": "read", "args": {"path": "a"}}
    second = {"functionCall": {"id": "c2", "name": "read", "args": dict[str, str]()}}

    assert content("assistant", *parts) == {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True, "thoughtSignature": "s0"},
            {"text": "Looking.", "thoughtSignature": "s1"},
            {"functionCall": first, "thoughtSignature": "s2"},
            second,
        ],
    }
    assert content("assistant", *parts, model="gemini-3.1-flash") == {
        "role": "model",
        "parts": [{"text": "Looking."}, {"functionCall": first, "thoughtSignature": SKIP}, second],
    }


def test_signatures_of_another_format_are_dropped() -> None:
    foreign = Text(text="Hi", opaque=signed("s", form="anthropic"))

    assert content("assistant", foreign)["parts"] == [{"text": "Hi"}]


def test_a_turn_with_nothing_to_send_still_takes_its_place() -> None:
    assert content("assistant", Thinking(text="lost")) == {"role": "model", "parts": [{"text": "(empty)"}]}


def test_the_tail_joins_the_last_user_content() -> None:
    turns = (
        Turn(role="user", parts=(Text(text="Hi"),)),
        Turn(role="assistant", parts=(Text(text="Yes?"),)),
        Turn(role="user", parts=(Text(text="Go"),)),
    )

    def contents(*given: Turn) -> list[dict[str, object]]:
        request = Request(
            head=FORMAT.encode_head(Head(system="S"), MODEL),
            turns=[FORMAT.encode_turn(t, MODEL) for t in given],
            tail="One child runs.",
        )
        return json.loads(FORMAT.body(request, MODEL))["contents"]

    tail = {"text": "One child runs."}
    assert contents(*turns)[-1] == {"role": "user", "parts": [{"text": "Go"}, tail]}
    assert contents(*turns[:2])[-1] == {"role": "user", "parts": [tail]}
    assert [c["role"] for c in contents(*turns)] == ["user", "model", "user"]


def test_the_model_is_in_the_path_and_the_key_in_a_header() -> None:
    assert FORMAT.path("gemini-x", stream=True) == "/models/gemini-x:streamGenerateContent?alt=sse"
    assert FORMAT.path("gemini-x", stream=False) == "/models/gemini-x:generateContent"
    assert FORMAT.path("tunedModels/mine", stream=False) == "/tunedModels/mine:generateContent"
    assert FORMAT.headers("k", MODEL) == {"x-goog-api-key": "k"}
    assert FORMAT.headers(None, MODEL) == {}


USAGE_WIRE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 30,
    "toolUsePromptTokenCount": 5,
    "totalTokenCount": 145,
}
USAGE = Usage(input=105, output=40, cache_read=60, thinking=30)
CHUNKS: Sequence[object] = (
    chunk({"text": "Fi", "thought": True}),
    chunk({"text": "rst", "thought": True}, usageMetadata={"promptTokenCount": 100}),
    chunk({"text": "naïve "}),
    chunk({"text": "🐝"}),
    chunk({"functionCall": {"name": "read", "args": {"path": "a"}, "id": "f1"}, "thoughtSignature": "sig"}),
    chunk({"functionCall": {"name": "now"}}, finish="STOP", usageMetadata=USAGE_WIRE),
)
STREAM = b": keep-alive\r\n\r\n" + stream(*CHUNKS)
ANSWER = Answer(
    parts=(
        Thinking(text="First"),
        Text(text="naïve 🐝"),
        Call(id=CallId(""), tool="read", arguments='{"path": "a"}', wire_id="f1", opaque=signed("sig")),
        Call(id=CallId(""), tool="now", arguments="{}"),
    ),
    finish="calls",
    usage=USAGE,
    raw_finish="STOP",
)


def test_a_stream_folds_into_thinking_text_and_parallel_calls() -> None:
    deltas: list[Delta] = []

    assert read(STREAM, deltas=deltas) == ANSWER
    assert [(d.kind, d.text, d.index) for d in deltas] == [
        ("thinking", "Fi", 0),
        ("thinking", "rst", 0),
        ("text", "naïve ", 0),
        ("text", "🐝", 0),
        ("call", "read", 0),
        ("call", "now", 1),
    ]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_however_the_network_cuts_the_bytes_the_answer_is_the_same(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]

    assert read(*(STREAM[a:b] for a, b in pairwise(at))) == ANSWER


def test_every_stream_that_is_cut_before_its_end_is_a_transient_failure() -> None:
    for end in range(0, len(STREAM) - 4, 53):
        with pytest.raises(ModelError) as caught:
            read(STREAM[:end])
        assert caught.value.transient


def test_an_answer_that_did_not_stream_is_the_same() -> None:
    parts: list[dict[str, object]] = [
        {"text": "First", "thought": True},
        {"text": "naïve 🐝"},
        {"functionCall": {"name": "read", "args": {"path": "a"}, "id": "f1"}, "thoughtSignature": "sig"},
        {"functionCall": {"name": "now"}},
    ]
    body = json.dumps(chunk(*parts, finish="STOP", usageMetadata=USAGE_WIRE)).encode()

    assert FORMAT.parse(body, MODEL) == ANSWER


def test_a_signature_that_comes_last_belongs_to_the_text_before_it() -> None:
    answer = read(
        stream(chunk({"text": "a"}), chunk({"text": "b"}), chunk({"text": "", "thoughtSignature": "s"}, finish="STOP"))
    )

    assert answer.parts == (Text(text="ab", opaque=signed("s")),)


def test_a_signed_piece_is_not_joined_with_its_neighbours() -> None:
    chunks = [chunk({"text": "a"}), chunk({"text": "b", "thoughtSignature": "s"}), chunk({"text": "c"}, finish="STOP")]

    assert read(stream(*chunks)).parts == (Text(text="a"), Text(text="b", opaque=signed("s")), Text(text="c"))


def test_a_signature_alone_is_kept_and_sent_back() -> None:
    answer = read(stream(chunk({"thoughtSignature": "s"}), chunk({"functionCall": {"name": "now"}}, finish="STOP")))

    assert answer.parts[0] == Thinking(text="", opaque=signed("s"))
    assert content("assistant", answer.parts[0])["parts"] == [{"text": "", "thought": True, "thoughtSignature": "s"}]


def test_a_picture_in_the_answer_is_media() -> None:
    assert read(stream(chunk({"text": "Here:"}, INLINE, finish="STOP"))).parts == (Text(text="Here:"), PICTURE)


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("PROHIBITED_CONTENT", "filtered"),
        ("SPII", "filtered"),
        ("LANGUAGE", "other"),
        ("TOO_MANY_TOOL_CALLS", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_how_an_answer_ended(raw: str, finish: Finish) -> None:
    answer = read(stream(chunk({"text": "a"}, finish=raw)))

    assert answer == Answer(parts=(Text(text="a"),), finish=finish, usage=Usage(), raw_finish=raw)


def test_a_filtered_answer_may_have_no_content_at_all() -> None:
    assert read(stream({"candidates": [{"finishReason": "SAFETY", "index": 0}]})).finish == "filtered"


def test_a_blocked_prompt_is_a_filtered_answer() -> None:
    answer = read(stream({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE_WIRE}))

    assert answer == Answer(parts=(), finish="filtered", usage=USAGE, raw_finish="PROHIBITED_CONTENT")


@pytest.mark.parametrize("reason", ["OTHER", "JAILBREAK", "A_NEW_REASON"])
def test_a_prompt_is_blocked_for_whatever_reason(reason: str) -> None:
    answer = read(stream({"promptFeedback": {"blockReason": reason}}))

    assert (answer.parts, answer.finish, answer.raw_finish) == ((), "filtered", reason)


def test_a_call_without_arguments_has_none() -> None:
    answer = read(stream(chunk({"functionCall": {"name": "now", "args": None}}, finish="STOP")))

    assert answer.parts == (Call(id=CallId(""), tool="now", arguments="{}"),)


def test_an_older_model_needs_no_placeholder_for_a_signature() -> None:
    call = Call(id=CallId("c"), tool="now", arguments="{}")

    assert content("model", call, model=OLDER)["parts"] == [{"functionCall": {"id": "c", "name": "now", "args": {}}}]


def test_a_malformed_call_is_worth_another_try() -> None:
    ended = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call:read{"}]}
    with pytest.raises(ModelError, match="call:read") as caught:
        read(stream(ended))

    assert caught.value.transient


def test_a_failure_inside_a_stream_says_whether_to_try_again() -> None:
    with pytest.raises(ModelError) as caught:
        read(stream(chunk({"text": "a"}), {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}))

    assert (caught.value.status, caught.value.transient) == (503, True)


def test_what_is_no_chunk_never_becomes_an_answer() -> None:
    for data in (b"data: {\n\n", b"data: [1]\n\n"):
        with pytest.raises(ModelError) as caught:
            read(data)
        assert caught.value.transient


def test_an_exhausted_quota_says_how_long_to_wait() -> None:
    error = {
        "code": 429,
        "message": "You exceeded your current quota.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}],
    }
    found = classify(429, {}, json.dumps({"error": error}).encode())

    assert (found.status, found.transient, found.retry_after) == (429, True, 12.0)


@pytest.mark.parametrize("as_list", [False, True])
def test_an_overflow_is_told_by_its_words(as_list: bool) -> None:
    words = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    body = {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}

    assert isinstance(classify(400, {}, json.dumps([body] if as_list else body).encode()), ContextOverflow)


async def ask(url: str, *turns: Turn, streamed: bool = True) -> Answer:
    config = ProviderConfig(name="sim", format="gemini", base_url=f"{url}/v1beta", key=lambda: "key")
    transport = Transport()
    model = WireModel(config, MODEL, transport=transport, env={})
    value = model.encode_head(Head(system="S", tools=(READ,)))
    try:
        return await model.ask(Request(head=value, turns=[model.encode_turn(t) for t in turns], stream=streamed))
    finally:
        await transport.close()


HELLO = Turn(role="user", parts=(Text(text="hello"),))


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_simulator_talks_thinks_and_calls(aimock: Callable[..., str], streamed: bool) -> None:
    url = aimock(
        {
            "match": {"userMessage": "hello"},
            "response": {
                "content": "Let me see.",
                "reasoning": "I should look.",
                "toolCalls": [{"name": "read", "arguments": '{"path":"a.txt"}', "id": "f1"}],
                "usage": {"promptTokenCount": 12, "candidatesTokenCount": 7},
            },
            "chunkSize": 3,
        }
    )

    assert await ask(url, HELLO, streamed=streamed) == Answer(
        parts=(
            Thinking(text="I should look."),
            Text(text="Let me see."),
            Call(id=CallId(""), tool="read", arguments='{"path":"a.txt"}', wire_id="f1"),
        ),
        finish="calls",
        usage=Usage(input=12, output=7),
        raw_finish="FUNCTION_CALL",
    )


async def test_the_simulator_sees_the_outcome_of_its_call(aimock: Callable[..., str]) -> None:
    url = aimock({"match": {"toolResultContains": "forty-two"}, "response": {"content": "It is 42."}})
    called = Turn(role="assistant", parts=(Call(id=CallId("c1"), tool="read", arguments="{}"),))
    outcome = Turn(role="user", parts=(Outcome(call=CallId("c1"), tool="read", text="forty-two"),))

    assert (await ask(url, HELLO, called, outcome)).parts == (Text(text="It is 42."),)


async def test_the_simulator_limits_the_rate(aimock: Callable[..., str]) -> None:
    url = aimock(
        {
            "match": {"userMessage": "hello"},
            "response": {
                "error": {"message": "Slow down", "type": "RESOURCE_EXHAUSTED"},
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
