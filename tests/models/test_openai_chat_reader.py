"""Answers of Chat Completions as OpenAI and others send them."""

import json
from collections.abc import Sequence

import pytest

from retinue.models.openai_chat import ChatReader, OpenAIChat
from retinue.ports.model import Answer, Delta, Finish
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Part, Text, Thinking, Turn

MODEL = "m"
DONE = b"[DONE]"


def chunk(delta: object = None, finish: str | None = None, **more: object) -> bytes:
    choice: dict[str, object] = {"index": 0, "delta": delta or None, "finish_reason": finish, "logprobs": None}
    return json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": [choice], **more}).encode()


def usage(**counts: object) -> bytes:
    return json.dumps({"choices": [], "usage": counts}).encode()


def read(*data: bytes, deltas: list[Delta] | None = None) -> Answer:
    reader = ChatReader(MODEL, None if deltas is None else deltas.append)
    for item in data:
        reader.feed(item)
        reader.flush()
    return reader.answer()


def call(tool: str, arguments: str, wire_id: str | None = None) -> Call:
    return Call(id=CallId(""), tool=tool, arguments=arguments, wire_id=wire_id)


def piece(index: int | None = None, id: str | None = None, **function: object) -> object:
    named = {"index": index, "id": id, "function": function}
    return {"tool_calls": [{key: value for key, value in named.items() if value is not None}]}


@pytest.mark.spec("MOD-01")
def test_text_comes_in_pieces_and_usage_after_the_end() -> None:
    deltas: list[Delta] = []

    answer = read(
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(None, "stop"),
        usage(
            prompt_tokens=10,
            completion_tokens=4,
            prompt_tokens_details={"cached_tokens": 8},
            completion_tokens_details={"reasoning_tokens": 3},
        ),
        DONE,
        deltas=deltas,
    )

    assert answer == Answer(
        parts=(Text(text="Hello"),),
        finish="stop",
        usage=Usage(input=10, output=4, cache_read=8, thinking=3),
        raw_finish="stop",
    )
    assert deltas == [Delta(kind="text", text="Hel"), Delta(kind="text", text="lo")]


@pytest.mark.spec("MOD-01")
def test_a_server_that_makes_up_an_id_for_every_piece_means_one_call() -> None:
    answer = read(
        chunk(piece(0, "a1", name="do", arguments="")),
        chunk(piece(0, "a2", arguments='{"x":')),
        chunk(piece(0, "a3", arguments="1}")),
        chunk(None, "tool_calls"),
    )

    assert answer.parts == (call("do", '{"x":1}', "a1"),)


@pytest.mark.spec("MOD-01")
def test_the_pieces_of_a_signed_detail_go_back_as_one() -> None:
    text: dict[str, object] = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    whole: dict[str, object] = {"type": "reasoning.encrypted", "data": "xx", "id": "r2"}
    answer = read(
        chunk({"reasoning": "Let", "reasoning_details": [{**text, "text": "Let", "signature": None}]}),
        chunk({"reasoning_details": [{**text, "text": " me."}]}),
        chunk({"reasoning_details": [{**text, "signature": "Et8B"}]}),
        chunk({"reasoning_details": [whole]}),
        chunk({"reasoning_details": [whole]}),
        chunk({"content": "Done."}, "stop"),
    )
    turn = Turn(role="assistant", parts=answer.parts)
    thinking = answer.parts[0]
    assert isinstance(thinking, Thinking)
    assert thinking.text == "Let me."

    sent = json.loads(OpenAIChat().encode_turn(turn, MODEL).data)

    assert sent["reasoning_details"] == [{**text, "text": "Let me.", "signature": "Et8B"}, whole, whole]
    assert "reasoning_details" not in json.loads(OpenAIChat().encode_turn(turn, "another").data)


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize("raw", ["error", "abort", "insufficient_system_resource"])
def test_an_answer_that_the_server_gave_up_is_asked_for_again(raw: str) -> None:
    with pytest.raises(ModelError, match=raw) as caught:
        read(chunk({"content": "Hel"}), chunk(None, raw), DONE)

    assert caught.value.transient


@pytest.mark.spec("MOD-03")
def test_an_error_in_a_choice_is_one() -> None:
    with pytest.raises(ModelError, match="gone") as caught:
        read(json.dumps({"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "gone"}}]}).encode())

    assert (caught.value.status, caught.value.transient) == (502, True)


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    "said",
    [
        [b'{"object":"error","message":"the engine died","type":"InternalServerError","code":500}', DONE],
        [b'{"error":"the engine died"}', DONE],
        [DONE],
    ],
)
def test_a_stream_that_ends_orderly_with_an_error_or_with_nothing_is_no_answer(said: list[bytes]) -> None:
    with pytest.raises(ModelError, match=r"the engine died|before the answer was whole") as caught:
        read(*said)

    assert caught.value.transient


@pytest.mark.spec("MOD-06")
@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 30},
            Usage(input=10, output=20),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 7}, Usage(input=10, output=4, cache_read=7)),
        ({"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}, Usage(input=10)),
        ({"prompt_tokens": 1, "cost": 0.1, "is_byok": False, "queue_time": "1ms", "list": []}, Usage(input=1)),
    ],
)
def test_usage_is_read_however_a_server_counts(counts: dict[str, object], expected: Usage) -> None:
    assert read(chunk({"content": "x"}, "stop"), usage(**counts), DONE).usage == expected


@pytest.mark.spec("MOD-01")
def test_parallel_calls_are_put_together_by_index() -> None:
    deltas: list[Delta] = []

    answer = read(
        chunk({"role": "assistant", "content": None}),
        chunk(piece(0, "call_a", name="add", arguments="")),
        chunk(piece(1, "call_b", name="sub", arguments="")),
        chunk(piece(0, arguments='{"a":')),
        chunk(piece(1, arguments='{"b": 2}')),
        chunk(piece(0, arguments=" 1}")),
        chunk(None, "tool_calls"),
        DONE,
        deltas=deltas,
    )

    assert answer.parts == (call("add", '{"a": 1}', "call_a"), call("sub", '{"b": 2}', "call_b"))
    assert answer.finish == "calls"
    assert deltas == [Delta(kind="call", text="add"), Delta(kind="call", text="sub", index=1)]


WHOLE = '{"a":1}'
VARIANTS: dict[str, Sequence[object]] = {
    "whole calls in one chunk": [
        {
            "tool_calls": [
                {"index": 0, "id": "a", "function": {"name": "add", "arguments": WHOLE}},
                {"index": 1, "id": "b", "function": {"name": "sub", "arguments": WHOLE}},
            ]
        }
    ],
    "every call numbered 0": [piece(0, "a", name="add", arguments=WHOLE), piece(0, "b", name="sub", arguments=WHOLE)],
    "no index": [piece(None, "a", name="add", arguments=WHOLE), piece(None, "b", name="sub", arguments=WHOLE)],
    "the id in every piece": [
        piece(0, "a", name="add", arguments='{"a"'),
        piece(0, "a", arguments=":1}"),
        piece(1, "b", name="sub", arguments=WHOLE),
    ],
    "an empty id later": [
        piece(0, "a", name="add", arguments='{"a"'),
        piece(0, "", arguments=":1}"),
        piece(1, "b", name="sub", arguments=WHOLE),
    ],
    "the index only at first": [
        piece(0, "a", name="add", arguments='{"a"'),
        piece(None, arguments=":1}"),
        piece(1, "b", name="sub", arguments=WHOLE),
    ],
    "arguments as an object": [
        piece(0, "a", name="add", arguments={"a": 1}),
        piece(1, "b", name="sub", arguments={"a": 1}),
    ],
}


@pytest.mark.spec("MOD-01")
@pytest.mark.parametrize("deltas", VARIANTS.values(), ids=VARIANTS.keys())
def test_calls_are_understood_from_servers_that_send_them_otherwise(deltas: Sequence[object]) -> None:
    answer = read(*map(chunk, deltas), chunk(None, "stop"), DONE)

    assert answer.parts == (call("add", WHOLE, "a"), call("sub", WHOLE, "b"))
    assert answer.finish == "calls"


def test_calls_with_neither_index_nor_id_begin_with_their_name() -> None:
    answer = read(
        chunk(piece(name="add", arguments='{"a"')),
        chunk(piece(arguments=":1}")),
        chunk(piece(name="sub", arguments=WHOLE)),
        DONE,
    )

    assert answer.parts == (call("add", WHOLE), call("sub", WHOLE))


def test_a_call_without_arguments_has_an_empty_object() -> None:
    answer = read(chunk(piece(0, "a", name="now", arguments="")), chunk(None, "tool_calls"), DONE)

    assert answer.parts == (call("now", "{}", "a"),)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_under_either_name_is_kept_with_the_name(field: str) -> None:
    deltas: list[Delta] = []
    answer = read(
        chunk({field: "h"}), chunk({field: "m", "content": ""}), chunk({"content": "5"}, "stop"), deltas=deltas
    )

    thinking, text = answer.parts
    assert isinstance(thinking, Thinking)
    assert thinking.text == "hm"
    assert thinking.opaque is not None
    assert (thinking.opaque.format, thinking.opaque.model) == ("openai-chat", MODEL)
    assert json.loads(bytes(thinking.opaque.data)) == field
    assert text == Text(text="5")
    assert [d.kind for d in deltas] == ["thinking", "thinking", "text"]


def test_details_of_thinking_are_kept_whole() -> None:
    detail = {"type": "reasoning.text", "text": "h", "signature": "s"}
    answer = read(chunk({"reasoning": "h", "reasoning_details": [detail]}), chunk({"content": "5"}, "stop"))

    thinking = answer.parts[0]
    assert isinstance(thinking, Thinking)
    assert thinking.opaque is not None
    assert json.loads(bytes(thinking.opaque.data)) == [detail]


def test_content_in_a_list_is_read() -> None:
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "5"}]

    assert read(chunk({"content": content}, "stop")).parts == (Thinking(text="hm"), Text(text="5"))


def test_a_refusal_is_text_and_says_so() -> None:
    answer = read(chunk({"refusal": "I can't "}), chunk({"refusal": "do that."}), chunk(None, "stop"), DONE)

    assert (answer.parts, answer.finish) == ((Text(text="I can't do that."),), "refusal")


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filtered"),
        ("eos", "stop"),
        ("model_length", "length"),
        ("sensitive", "filtered"),
        ("bored", "other"),
        ("function_call", "calls"),
    ],
)
def test_reasons_to_finish_are_translated_and_kept(raw: str, finish: Finish) -> None:
    answer = read(chunk({"content": "x"}, raw), DONE)

    assert (answer.finish, answer.raw_finish) == (finish, raw)


def test_an_answer_cut_by_its_length_stays_so_though_it_calls() -> None:
    assert read(chunk(piece(0, "a", name="add", arguments='{"a"')), chunk(None, "length")).finish == "length"


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    "data",
    [
        (),
        (chunk({"content": "Hel"}),),
        (
            chunk(
                piece(0, "a", name="add", arguments='{"a'),
            ),
        ),
    ],
)
def test_a_stream_that_ends_too_early_is_a_transient_failure(data: tuple[bytes, ...]) -> None:
    with pytest.raises(ModelError, match="before the answer was whole") as caught:
        read(*data)

    assert caught.value.transient


def test_a_stream_that_only_says_it_is_done_is_whole() -> None:
    answer = read(chunk({"content": "x"}), DONE)

    assert (answer.parts, answer.finish) == ((Text(text="x"),), "other")


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"choices": 7}', b"null"])
def test_what_is_no_chunk_is_a_transient_failure(data: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        read(data)

    assert caught.value.transient


@pytest.mark.spec("MOD-03")
def test_an_error_in_the_stream_is_raised_for_what_it_is() -> None:
    with pytest.raises(ModelError) as caught:
        read(chunk({"content": "x"}), b'{"error":{"code":429,"message":"slow down"},"choices":[]}')
    assert (caught.value.status, caught.value.transient) == (429, True)

    with pytest.raises(ContextOverflow):
        read(b'{"error":{"code":"context_length_exceeded","message":"too long"}}')


def test_unknown_fields_and_empty_choices_do_no_harm() -> None:
    answer = read(
        b'{"choices":[],"prompt_filter_results":[{}],"usage":null}',
        b'{"choices":null,"obfuscation":"x","error":null}',
        chunk({"content": "x", "annotations": []}, "stop", system_fingerprint="f"),
    )

    assert answer.parts == (Text(text="x"),)


def test_usage_of_other_servers_is_read() -> None:
    answer = read(
        chunk({"content": "x"}, "stop"), usage(prompt_tokens=9, completion_tokens=None, prompt_cache_hit_tokens=4)
    )

    assert answer.usage == Usage(input=9, cache_read=4)


@pytest.mark.spec("MOD-01")
def test_a_whole_answer_is_read_like_a_streamed_one() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "add", "arguments": WHOLE}}],
    }
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }

    answer = OpenAIChat().parse(json.dumps(body).encode(), MODEL)

    parts: tuple[Part, ...] = answer.parts
    assert parts[1:] == (call("add", WHOLE, "a"),)
    assert isinstance(parts[0], Thinking)
    assert (answer.finish, answer.usage) == ("calls", Usage(input=3, output=2))


def test_a_whole_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(ModelError, match="overloaded"):
        OpenAIChat().parse(b'{"error":{"message":"overloaded","code":503}}', MODEL)
