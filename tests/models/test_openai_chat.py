"""Requests of Chat Completions, byte by byte where it matters."""

import json
import re

import msgspec
import pytest

from retinue.models.openai_chat import OpenAIChat
from retinue.ports.model import Fragment, Head, Request
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, OutcomeStatus, Part, Text, Thinking, Turn
from retinue.schema.tool import ToolSpec

MODEL = "gpt-4o"
CALL = CallId("7d7f0b1e-2f3b-5a67-9c1d-000000000001")
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
PNG = Media(mime="image/png", data="iVBORw==")
chat = OpenAIChat()


def user(*parts: Part) -> Turn:
    return Turn(role="user", parts=parts)


def assistant(*parts: Part) -> Turn:
    return Turn(role="assistant", parts=parts)


def sent(head: Head, *turns: Turn, tail: str = "", stream: bool = True, model: str = MODEL) -> dict[str, object]:
    request = Request(
        head=chat.encode_head(head, model),
        turns=[chat.encode_turn(turn, model) for turn in turns],
        tail=tail,
        stream=stream,
    )
    return json.loads(chat.body(request, model))


def messages(*turns: Turn, tail: str = "", model: str = MODEL) -> object:
    return sent(Head(system=""), *turns, tail=tail, model=model)["messages"]


@pytest.mark.spec("MOD-01")
def test_a_request_has_the_head_the_turns_and_asks_for_usage() -> None:
    head = Head(system="You add.", tools=(ADD,), temperature=0.2, top_p=0.9, max_tokens=50, reasoning_effort="low")

    assert sent(head, user(Text(text="2+3?"))) == {
        "model": "gpt-4o",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Adds.",
                    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
                },
            }
        ],
        "temperature": 0.2,
        "top_p": 0.9,
        "reasoning_effort": "low",
        "max_tokens": 50,
        "messages": [{"role": "system", "content": "You add."}, {"role": "user", "content": "2+3?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_request_that_is_not_streamed_does_not_mention_streams() -> None:
    assert sent(Head(system=""), user(Text(text="hi")), stream=False) == {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_openai_itself_has_another_name_for_the_longest_answer() -> None:
    head = OpenAIChat(renamed=True).encode_head(Head(system="", max_tokens=50), "o3")

    assert json.loads(head.data + b"]}")["max_completion_tokens"] == 50


@pytest.mark.parametrize("model", ["o3", "gpt-5", "gpt-5.4-mini", "openai/gpt-6-sol"])
def test_reasoning_models_get_no_sampling_settings(model: str) -> None:
    body = sent(Head(system="", temperature=0.7, top_p=0.5), user(Text(text="hi")), model=model)

    assert body.keys() == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5-chat-latest", "llama3"])
def test_other_models_get_them(model: str) -> None:
    assert sent(Head(system="", temperature=0.7), user(Text(text="hi")), model=model)["temperature"] == 0.7


def test_settings_of_tools_are_sent_only_with_tools_and_when_they_differ_from_the_default() -> None:
    with_tools = Head(system="", tools=(ADD,), tool_choice="required", parallel_tool_calls=False)
    without = Head(system="", tool_choice="required", parallel_tool_calls=False)

    body = sent(with_tools, user(Text(text="hi")))
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert not {"tool_choice", "parallel_tool_calls", "tools"} & sent(without, user(Text(text="hi"))).keys()
    assert not {"tool_choice", "parallel_tool_calls"} & sent(Head(system="", tools=(ADD,)), user()).keys()


def test_a_schema_for_the_answer_is_sent_as_it_is() -> None:
    body = sent(Head(system="", output_schema=b'{"type":"object"}'), user(Text(text="hi")))

    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "result", "schema": {"type": "object"}},
    }


def test_options_are_merged_but_can_not_reach_the_model_the_tools_or_the_messages() -> None:
    options = b'{"seed":7,"temperature":0,"model":"other","tools":[],"messages":[],"stream":false,"functions":[]}'

    body = sent(Head(system="", temperature=1.0, tools=(ADD,), options=options), user(Text(text="hi")))

    assert (body["seed"], body["temperature"], body["model"], body["stream"]) == (7, 0, "gpt-4o", True)
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert "functions" not in body
    assert body["tools"] != []


@pytest.mark.spec("MOD-01")
def test_a_turn_of_calls_has_no_content_and_our_ids() -> None:
    turn = assistant(Call(id=CALL, tool="add", arguments='{"a": 1}', wire_id="call_of_another_provider"))

    assert messages(turn) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": CALL, "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
        }
    ]


def test_text_and_calls_are_one_message() -> None:
    turn = assistant(Text(text="Let me "), Text(text="add."), Call(id=CALL, tool="add", arguments=""))

    assert messages(turn) == [
        {
            "role": "assistant",
            "content": "Let me add.",
            "tool_calls": [{"id": CALL, "type": "function", "function": {"name": "add", "arguments": "{}"}}],
        }
    ]


def test_arguments_that_are_no_object_are_not_repeated() -> None:
    turn = assistant(Call(id=CALL, tool="add", arguments='{"a": '))

    assert b'"arguments":"{}"' in chat.encode_turn(turn, MODEL).data


def test_an_id_of_strange_letters_is_rewritten_the_same_on_both_sides() -> None:
    strange = CallId("call:ünder/" + "x" * 60)
    ask = json.loads(chat.encode_turn(assistant(Call(id=strange, tool="t", arguments="{}")), MODEL).data)
    answer = json.loads(chat.encode_turn(user(Outcome(call=strange, tool="t", text="ok")), MODEL).data)

    assert ask["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert len(answer["tool_call_id"]) <= 40
    assert answer["tool_call_id"].isalnum()


def test_outcomes_come_first_and_then_what_the_user_says() -> None:
    turn = user(
        Outcome(call=CALL, tool="add", text="5"),
        Outcome(call=CallId("b"), tool="rm", status="denied", text="a rule forbids it"),
        Outcome(call=CallId("c"), tool="rm", status="skipped"),
        Text(text="And now?"),
        Text(text="Go on."),
    )

    assert messages(turn) == [
        {"role": "tool", "tool_call_id": CALL, "content": "5"},
        {"role": "tool", "tool_call_id": "b", "content": "denied: a rule forbids it"},
        {"role": "tool", "tool_call_id": "c", "content": "skipped"},
        {"role": "user", "content": "And now?\n\nGo on."},
    ]


@pytest.mark.parametrize(("status", "text"), [("ok", "(no output)"), ("error", "error"), ("timed_out", "timed_out")])
def test_an_outcome_always_says_something(status: OutcomeStatus, text: str) -> None:
    assert messages(user(Outcome(call=CALL, tool="t", status=status))) == [
        {"role": "tool", "tool_call_id": CALL, "content": text}
    ]


@pytest.mark.spec("MOD-01")
def test_images_and_files_are_sent_inline() -> None:
    pdf = Media(mime="application/pdf", data="JVBERi0=", name="a.pdf")
    turn = user(Text(text="Look:"), PNG, pdf, Media(mime="text/csv", path="/attachments/b.csv"))

    assert messages(turn) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
                {"type": "text", "text": "[text/csv file /attachments/b.csv]"},
            ],
        }
    ]


def test_files_of_an_outcome_follow_in_the_users_message() -> None:
    turn = user(Outcome(call=CALL, tool="shot", text="taken", media=(PNG,)))

    assert messages(turn) == [
        {"role": "tool", "tool_call_id": CALL, "content": "taken"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From the call of shot:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ],
        },
    ]


@pytest.mark.parametrize("turn", [user(), user(Text(text="")), assistant(), assistant(Thinking(text="hm"))])
def test_a_turn_without_content_still_holds_its_place(turn: Turn) -> None:
    assert messages(turn) == [{"role": turn.role, "content": "(empty)"}]


QUOTED = 'He said "go"\n\\end'


@pytest.mark.parametrize(
    ("turns", "last"),
    [
        ((user(Text(text=QUOTED)),), {"role": "user", "content": f"{QUOTED}\n\nRemember: {QUOTED}"}),
        (
            (user(PNG),),
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                    {"type": "text", "text": f"Remember: {QUOTED}"},
                ],
            },
        ),
        ((user(Outcome(call=CALL, tool="t", text="ok")),), {"role": "user", "content": f"Remember: {QUOTED}"}),
        ((), {"role": "user", "content": f"Remember: {QUOTED}"}),
    ],
    ids=["text", "list", "tool", "nothing"],
)
def test_volatile_text_joins_the_last_user_message(turns: tuple[Turn, ...], last: object) -> None:
    found = messages(*turns, tail=f"Remember: {QUOTED}")

    assert isinstance(found, list)
    assert found[-1] == last


@pytest.mark.parametrize(
    ("kept", "field"),
    [
        (b'"reasoning_content"', {"reasoning_content": "hm"}),
        (b'"reasoning"', {"reasoning": "hm"}),
        (
            b'[{"type":"reasoning.encrypted","data":"x"}]',
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
        ),
    ],
)
def test_thinking_goes_back_to_the_model_that_thought_it_and_to_no_other(kept: bytes, field: dict[str, object]) -> None:
    opaque = Opaque(format="openai-chat", model="deepseek-v4", data=msgspec.Raw(kept))
    turn = assistant(Thinking(text="hm", opaque=opaque), Text(text="5"))

    assert messages(turn, model="deepseek-v4") == [{"role": "assistant", "content": "5", **field}]
    assert messages(turn, model="gpt-4o") == [{"role": "assistant", "content": "5"}]


@pytest.mark.spec("MOD-01")
def test_mistral_gets_ids_of_nine_letters_and_a_word_of_the_assistants_before_the_users() -> None:
    turns = (
        assistant(Call(id=CALL, tool="add", arguments="{}")),
        user(Outcome(call=CALL, tool="add", text="5"), Text(text="And now?")),
        assistant(Call(id=CALL, tool="add", arguments="{}")),
        user(Outcome(call=CALL, tool="add", text="6")),
    )

    first, result, *rest = json.loads(json.dumps(messages(*turns, tail="Hurry.", model="mistralai/devstral-small")))

    assert re.fullmatch(r"[a-z0-9]{9}", result["tool_call_id"])
    assert first["tool_calls"][0]["id"] == result["tool_call_id"]
    assert [m["role"] for m in rest] == ["assistant", "user", "assistant", "tool", "assistant", "user"]


def test_the_key_is_a_bearer_token() -> None:
    assert chat.headers("k", MODEL) == {"Authorization": "Bearer k"}
    assert chat.headers(None, MODEL) == {}


def test_a_body_is_its_fragments_joined() -> None:
    """Nothing is decoded or encoded again: what is no JSON at all comes through as it is."""
    request = Request(head=Fragment(b"<head>,"), turns=[Fragment(b"<1>"), Fragment(b"<2>")], stream=False)

    assert chat.body(request, MODEL) == b"<head>,<1>,<2>]}"
