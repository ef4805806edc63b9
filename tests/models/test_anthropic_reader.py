"""Answers of Anthropic Messages, streamed and whole."""

import json

import pytest

from retinue.models.anthropic import Anthropic, AnthropicReader
from retinue.ports.model import Answer, Delta, Finish
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Text, Thinking, Turn

MODEL = "claude-opus-5-5"
Event = dict[str, object]
START: Event = {
    "type": "message_start",
    "message": {
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "output_tokens": 1,
        },
    },
}
STOP: Event = {"type": "message_stop"}


def begin(index: int, **block: object) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, kind: str, **delta: object) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def end(reason: str, **usage: int) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def read(*events: Event, deltas: list[Delta] | None = None) -> Answer:
    reader = AnthropicReader(MODEL, None if deltas is None else deltas.append)
    for event in events:
        reader.feed(json.dumps(event).encode())
        reader.flush()
    return reader.answer()


def call(tool: str, arguments: str, wire_id: str) -> Call:
    return Call(id=CallId(""), tool=tool, arguments=arguments, wire_id=wire_id)


@pytest.mark.spec("MOD-01")
def test_an_answer_of_thinking_text_and_calls_is_put_together() -> None:
    deltas: list[Delta] = []

    answer = read(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        {"type": "ping"},
        more(0, "thinking_delta", thinking="Let "),
        more(0, "thinking_delta", thinking="me."),
        more(0, "signature_delta", signature="sig"),
        {"type": "content_block_stop", "index": 0},
        begin(1, type="text", text=""),
        more(1, "text_delta", text="Adding"),
        begin(2, type="tool_use", id="toolu_1", name="add", input={}),
        more(2, "input_json_delta", partial_json=""),
        more(2, "input_json_delta", partial_json='{"a": '),
        more(2, "input_json_delta", partial_json="1}"),
        begin(3, type="redacted_thinking", data="xyz"),
        begin(4, type="tool_use", id="toolu_2", name="now", input={}),
        {"type": "something_new", "index": 9},
        more(9, "something_delta", text="?"),
        end("tool_use", output_tokens=42),
        STOP,
        deltas=deltas,
    )

    first, text, add, redacted, now = answer.parts
    assert isinstance(first, Thinking)
    assert isinstance(redacted, Thinking)
    assert first.text == "Let me."
    assert first.opaque is not None
    assert redacted.opaque is not None
    assert (first.opaque.format, first.opaque.model) == ("anthropic", MODEL)
    assert json.loads(bytes(first.opaque.data)) == {"type": "thinking", "thinking": "Let me.", "signature": "sig"}
    assert json.loads(bytes(redacted.opaque.data)) == {"type": "redacted_thinking", "data": "xyz"}
    assert (text, add, now) == (Text(text="Adding"), call("add", '{"a": 1}', "toolu_1"), call("now", "{}", "toolu_2"))
    assert (answer.finish, answer.raw_finish) == ("calls", "tool_use")
    assert answer.usage == Usage(input=125, output=42, cache_read=100, cache_write=20)
    assert deltas == [
        Delta(kind="thinking", text="Let "),
        Delta(kind="thinking", text="me."),
        Delta(kind="text", text="Adding"),
        Delta(kind="call", text="add"),
        Delta(kind="call", text="now", index=1),
    ]


@pytest.mark.spec("MOD-01")
def test_what_was_thought_is_sent_back_byte_for_byte() -> None:
    answer = read(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        more(0, "thinking_delta", thinking='"quoted" ünd 🐝\n'),
        more(0, "signature_delta", signature="s1"),
        more(0, "signature_delta", signature="s2"),
        begin(1, type="text", text="Hi"),
        end("end_turn"),
    )

    body = json.loads(Anthropic().encode_turn(Turn(role="assistant", parts=answer.parts), MODEL).data)
    assert body["content"] == [
        {"type": "thinking", "thinking": '"quoted" ünd 🐝\n', "signature": "s1s2"},
        {"type": "text", "text": "Hi"},
    ]


def test_a_server_that_sends_a_whole_input_at_once_is_understood() -> None:
    answer = read(START, begin(0, type="tool_use", id="t", name="add", input={"a": 1}), end("tool_use"), STOP)

    assert answer.parts == (call("add", '{"a": 1}', "t"),)


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("unheard_of", "other"),
    ],
)
def test_reasons_to_finish_are_translated_and_kept(raw: str, finish: Finish) -> None:
    answer = read(START, begin(0, type="text", text="x"), end(raw))

    assert (answer.finish, answer.raw_finish) == (finish, raw)


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    "events", [(), (START,), (START, begin(0, type="text", text=""), more(0, "text_delta", text="x"))]
)
def test_a_stream_that_ends_too_early_is_a_transient_failure(events: tuple[Event, ...]) -> None:
    with pytest.raises(ModelError, match="before the answer was whole") as caught:
        read(*events)

    assert caught.value.transient


@pytest.mark.spec("MOD-03")
def test_an_overload_inside_the_stream_is_transient() -> None:
    with pytest.raises(ModelError, match="Overloaded") as caught:
        read(START, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    assert (caught.value.status, caught.value.transient) == (529, True)


def test_what_is_no_event_is_a_transient_failure() -> None:
    with pytest.raises(ModelError) as caught:
        AnthropicReader(MODEL).feed(b"{")

    assert caught.value.transient


@pytest.mark.spec("MOD-01")
def test_a_whole_answer_is_read_like_a_streamed_one() -> None:
    body = {
        "type": "message",
        "content": [
            {"type": "thinking", "signature": "sig", "thinking": "hm"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 2}},
    }

    answer = Anthropic().parse(json.dumps(body).encode(), MODEL)

    thinking = answer.parts[0]
    assert isinstance(thinking, Thinking)
    assert thinking.opaque is not None
    assert bytes(thinking.opaque.data).startswith(b'{"type":"thinking"')
    assert answer.parts[1:] == (Text(text="Hi"), call("add", '{"a": 1}', "t"))
    assert (answer.finish, answer.usage) == ("calls", Usage(input=5, output=7, thinking=2))


def test_a_whole_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(ContextOverflow):
        body = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}'
        Anthropic().parse(body, MODEL)
    with pytest.raises(ModelError):
        Anthropic().parse(b"<html>", MODEL)
