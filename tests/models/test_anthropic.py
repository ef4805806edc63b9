"""Requests of Anthropic Messages: blocks, marks for the cache, and what each model refuses."""

import json

import msgspec
import pytest

from retinue.models.anthropic import Anthropic
from retinue.ports.model import Fragment, Head, Request
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn
from retinue.schema.tool import ToolSpec

OLD, NEW = "claude-sonnet-4-5", "claude-opus-5-5"
CALL = CallId("7d7f0b1e-2f3b-5a67-9c1d-000000000001")
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
CACHED = {"type": "ephemeral"}
anthropic = Anthropic(max_output=64_000)


def user(*parts: Part) -> Turn:
    return Turn(role="user", parts=parts)


def assistant(*parts: Part) -> Turn:
    return Turn(role="assistant", parts=parts)


def thought(model: str, text: str = "hm") -> Thinking:
    raw = b'{"type":"thinking","thinking":"%b","signature":"sig"}' % text.encode()
    return Thinking(text=text, opaque=Opaque(format="anthropic", model=model, data=msgspec.Raw(raw)))


def sent(head: Head, *turns: Turn, tail: str = "", stream: bool = True, model: str = OLD) -> dict[str, object]:
    request = Request(
        head=anthropic.encode_head(head, model),
        turns=[anthropic.encode_turn(turn, model) for turn in turns],
        tail=tail,
        stream=stream,
    )
    return json.loads(anthropic.body(request, model))


def head_of(head: Head, model: str = OLD) -> dict[str, object]:
    body = sent(head, user(Text(text="hi")), stream=False, model=model)
    return {key: value for key, value in body.items() if key not in ("model", "messages")}


def blocks(turn: Turn, model: str = OLD) -> object:
    return json.loads(anthropic.encode_turn(turn, model).data)["content"]


@pytest.mark.spec("MOD-01")
def test_a_request_has_the_head_the_turns_and_marks_for_the_cache() -> None:
    head = Head(system="You add.", tools=(ADD,), temperature=0.2, max_tokens=50)

    assert sent(head, user(Text(text="2+3?"))) == {
        "model": OLD,
        "max_tokens": 50,
        "system": [{"type": "text", "text": "You add.", "cache_control": CACHED}],
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        "temperature": 0.2,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "2+3?", "cache_control": CACHED}]}],
        "stream": True,
    }


def test_without_a_system_prompt_the_last_tool_carries_the_mark() -> None:
    other = ToolSpec(name="sub", description="Subtracts.", parameters={"type": "object"})
    head = head_of(Head(system=" ", tools=(ADD, other)))

    assert "system" not in head
    assert head["tools"] == [
        {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}},
        {"name": "sub", "description": "Subtracts.", "input_schema": {"type": "object"}, "cache_control": CACHED},
    ]


@pytest.mark.spec("MOD-01")
def test_the_last_user_turn_and_the_one_before_are_marked_and_volatile_text_comes_after_the_mark() -> None:
    body = sent(
        Head(system=""),
        user(Text(text="one")),
        assistant(Call(id=CALL, tool="add", arguments="{}")),
        user(Outcome(call=CALL, tool="add", text="5")),
        assistant(Text(text="Five.")),
        user(Text(text="three")),
        tail="Children: none",
    )

    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": CALL, "name": "add", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": CALL, "content": "5", "cache_control": CACHED}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Five."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "three", "cache_control": CACHED},
                {"type": "text", "text": "Children: none"},
            ],
        },
    ]


def test_volatile_text_without_a_user_turn_to_join_is_one_of_its_own() -> None:
    last = {"role": "user", "content": [{"type": "text", "text": "go"}]}

    assert sent(Head(system=""), tail="go")["messages"] == [last]
    after = sent(Head(system=""), user(Text(text="hi")), assistant(Text(text="yes")), tail="go")["messages"]
    assert isinstance(after, list)
    assert after[-1] == last


@pytest.mark.parametrize(
    ("head", "longest", "sent"),
    [
        (Head(system=""), 64_000, 32_000),
        (Head(system=""), 4096, 4096),
        (Head(system="", max_tokens=999_999), 64_000, 64_000),
        (Head(system="", thinking_budget=40_000), 64_000, 48_192),
    ],
)
def test_the_longest_answer_is_what_was_asked_for_or_the_models_within_reason(
    head: Head, longest: int, sent: int
) -> None:
    data = Anthropic(max_output=longest).encode_head(head, OLD).data

    assert json.loads(data + b"]}")["max_tokens"] == sent


@pytest.mark.parametrize(
    ("head", "model", "expected"),
    [
        (
            Head(system="", thinking_budget=4000, max_tokens=4000, temperature=0.5, top_p=0.5),
            OLD,
            {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        ),
        (
            Head(system="", thinking_budget=4000, max_tokens=6000),
            OLD,
            {"max_tokens": 6000, "thinking": {"type": "enabled", "budget_tokens": 4000}},
        ),
        (
            Head(system="", reasoning_effort="low", max_tokens=6000),
            OLD,
            {"max_tokens": 6000, "thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        (
            Head(system="", thinking_budget=10, max_tokens=6000),
            OLD,
            {"max_tokens": 6000, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        (Head(system="", thinking_budget=4000, max_tokens=1500), OLD, {"max_tokens": 1500}),
        (Head(system="", thinking_budget=0, temperature=1.5, max_tokens=9), OLD, {"max_tokens": 9, "temperature": 1.0}),
        (
            Head(system="", reasoning_effort="high", max_tokens=30_000),
            "claude-opus-4-5",
            {
                "max_tokens": 30_000,
                "thinking": {"type": "enabled", "budget_tokens": 24_576},
                "output_config": {"effort": "high"},
            },
        ),
        (
            Head(system="", reasoning_effort="high", max_tokens=9),
            "claude-sonnet-4-6",
            {"max_tokens": 9, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        (Head(system="", max_tokens=9, temperature=0.5), "claude-opus-4-7", {"max_tokens": 9}),
        (
            Head(system="", max_tokens=9, thinking_budget=5000, temperature=0.5, top_p=0.1),
            "claude-opus-4-7",
            {
                "max_tokens": 9,
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "medium"},
            },
        ),
        (
            Head(system="", max_tokens=9, temperature=0.5),
            NEW,
            {
                "max_tokens": 9,
                "thinking": {
                    "type": "adaptive",
                    "display": "summarized",
                    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
                },
            },
        ),
    ],
    ids=["tight", "room", "effort", "small", "no room", "off", "effort-4-5", "adaptive-4-6", "plain-4-7", "4-7", "5-5"],
)
def test_thinking_and_sampling_are_asked_for_as_each_model_takes_it(
    head: Head, model: str, expected: dict[str, object]
) -> None:
    assert head_of(head, model) == expected


@pytest.mark.parametrize(
    ("head", "model", "choice"),
    [
        (Head(system="", tools=(ADD,)), OLD, None),
        (Head(system="", tools=(ADD,), tool_choice="required"), OLD, {"type": "any"}),
        (Head(system="", tools=(ADD,), tool_choice="none"), OLD, {"type": "none"}),
        (
            Head(system="", tools=(ADD,), parallel_tool_calls=False),
            OLD,
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        (Head(system="", tools=(ADD,), tool_choice="required"), NEW, None),
        (Head(system="", tools=(ADD,), tool_choice="required"), "claude-haiku-5-5", {"type": "any"}),
        (Head(system="", tool_choice="required", parallel_tool_calls=False), OLD, None),
    ],
)
def test_the_choice_of_tools_is_sent_when_it_differs_from_the_default(head: Head, model: str, choice: object) -> None:
    assert head_of(head, model).get("tool_choice") == choice


def test_a_forced_call_is_not_thought_about() -> None:
    head = Head(system="", tools=(ADD,), tool_choice="required", thinking_budget=2000)

    assert "thinking" not in head_of(head)


def test_a_schema_for_the_answer_is_part_of_the_system_prompt() -> None:
    schema = "Answer with one JSON value that fits this JSON Schema, and nothing else:"
    text = f'Be brief.\n\n{schema}\n{{"type":"object"}}'

    assert head_of(Head(system="Be brief.", output_schema=b'{"type":"object"}'))["system"] == [
        {"type": "text", "text": text, "cache_control": CACHED}
    ]


def test_options_can_not_reach_the_model_the_tools_or_the_messages() -> None:
    options = b'{"top_k":5,"model":"other","tools":[{"type":"bash"}],"messages":[],"system":"x","mcp_servers":[]}'

    body = sent(Head(system="", options=options), user(Text(text="hi")))

    assert body.keys() == {"top_k", "model", "max_tokens", "messages", "stream"}
    assert body["model"] == OLD


@pytest.mark.spec("MOD-01")
def test_blocks_of_a_turn_keep_their_order_and_calls_have_our_ids() -> None:
    turn = assistant(
        thought(OLD, "first"),
        Text(text="Let me add."),
        Call(id=CALL, tool="add", arguments='{"a": [1, 2]}', wire_id="toolu_1"),
        thought(OLD, "second"),
        Call(id=CallId("b"), tool="add", arguments='{"broken'),
    )

    assert blocks(turn) == [
        {"type": "thinking", "thinking": "first", "signature": "sig"},
        {"type": "text", "text": "Let me add."},
        {"type": "tool_use", "id": CALL, "name": "add", "input": {"a": [1, 2]}},
        {"type": "thinking", "thinking": "second", "signature": "sig"},
        {"type": "tool_use", "id": "b", "name": "add", "input": {}},
    ]


def test_thinking_of_another_model_or_format_is_dropped() -> None:
    other = Opaque(format="gemini", model=OLD, data=msgspec.Raw(b'{"secret":1}'))
    turn = assistant(thought(NEW), Thinking(text="hm", opaque=other), Thinking(text="hm"), Text(text="5"))

    assert blocks(turn) == [{"type": "text", "text": "5"}]


def test_redacted_thinking_goes_back_as_it_came() -> None:
    raw = b'{"type":"redacted_thinking","data":"xyz"}'
    turn = assistant(
        Thinking(text="", opaque=Opaque(format="anthropic", model=OLD, data=msgspec.Raw(raw))), Text(text="5")
    )

    assert blocks(turn) == [{"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "5"}]


def test_thinking_is_never_the_last_block() -> None:
    assert blocks(assistant(Text(text="a"), thought(OLD))) == [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "(empty)"},
    ]


@pytest.mark.parametrize("turn", [user(), user(Text(text="\n ")), assistant(), assistant(Text(text=""))])
def test_no_block_of_text_is_ever_empty(turn: Turn) -> None:
    assert blocks(turn) == [{"type": "text", "text": "(empty)"}]


@pytest.mark.spec("MOD-01")
def test_outcomes_say_whether_they_failed_and_carry_their_files() -> None:
    png = Media(mime="image/png", data="iVBORw==")
    turn = user(
        Outcome(call=CALL, tool="shot", text="taken", media=(png,)),
        Outcome(call=CallId("b"), tool="rm", status="error", text="no such file"),
        Outcome(call=CallId("c"), tool="rm", status="denied", text="a rule forbids it"),
        Text(text="And now?"),
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}

    assert blocks(turn) == [
        {"type": "tool_result", "tool_use_id": CALL, "content": [{"type": "text", "text": "taken"}, image]},
        {"type": "tool_result", "tool_use_id": "b", "content": "no such file", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c", "content": "denied: a rule forbids it", "is_error": True},
        {"type": "text", "text": "And now?"},
    ]


def test_documents_are_sent_as_what_they_are() -> None:
    turn = user(
        Media(mime="application/pdf", data="JVBERi0=", name="a.pdf"),
        Media(mime="text/csv", data="YSxi", name="b.csv"),
        Media(mime="image/tiff", data="AAAA", name="c.tiff"),
        Media(mime="image/png", path="/attachments/d.png"),
    )

    assert blocks(turn) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            "title": "a.pdf",
        },
        {"type": "text", "text": "[text/csv file b.csv]\na,b"},
        {"type": "text", "text": "[image/tiff file c.tiff]"},
        {"type": "text", "text": "[image/png file /attachments/d.png]"},
    ]


LOOP = (
    user(Text(text="go")),
    assistant(thought(OLD), Call(id=CALL, tool="add", arguments="{}")),
    user(Outcome(call=CALL, tool="add", text="5")),
    assistant(Call(id=CallId("b"), tool="add", arguments="{}")),
    user(Outcome(call=CallId("b"), tool="add", text="6")),
)
CHANGED = (LOOP[0], assistant(thought(NEW), Call(id=CALL, tool="add", arguments="{}")), *LOOP[2:])


@pytest.mark.parametrize(
    ("turns", "thinks"),
    [
        ((), True),
        (LOOP[:1], True),
        (LOOP, True),
        (CHANGED, False),
        ((*CHANGED, assistant(Text(text="Done.")), user(Text(text="thanks"))), True),
    ],
    ids=["nothing", "first", "loop", "changed", "next turn"],
)
def test_after_a_change_of_model_nothing_is_thought_until_the_turn_ends(turns: tuple[Turn, ...], thinks: bool) -> None:
    body = sent(Head(system="", thinking_budget=2000), *turns)

    assert ("thinking" in body) is thinks
    assert body["model"] == OLD


def test_the_key_and_the_version_are_headers() -> None:
    assert anthropic.headers("k", OLD) == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert "x-api-key" not in anthropic.headers(None, OLD)


def test_a_beta_is_asked_for_only_with_models_that_need_it() -> None:
    assert "anthropic-beta" in anthropic.headers("k", "claude-sonnet-5-5")
    assert "anthropic-beta" not in anthropic.headers("k", "claude-sonnet-5")


def test_a_body_is_its_fragments_joined() -> None:
    """Nothing is decoded or encoded again: what is no JSON at all comes through as it is."""
    request = Request(head=Fragment(b"<head>"), turns=[Fragment(b"<1>"), Fragment(b"<2>")], stream=False)

    assert anthropic.body(request, OLD) == b"<head><1>,<2>]}"
