"""What all wire formats do alike; above all, a conversation that one began goes on in any other."""

import json
import re

import msgspec
import pytest

from retinue.models.formats import FORMATS, load_format
from retinue.models.wire import open_object
from retinue.ports.model import Delta, Head, Request
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Outcome, Part, Text, Turn

pytestmark = pytest.mark.spec("MOD-01")

MODELS = {
    "openai-chat": "some-model",
    "openai-responses": "gpt-5.4",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3.1-pro-preview",
}
PNG = "iVBORw0KGgo"
CALLED = '{"path":"a"}'
ANSWERS: dict[str, object] = {
    "openai-chat": {
        "choices": [
            {
                "message": {
                    "content": "Reading.",
                    "reasoning": "Hm.",
                    "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "SIGNED"}],
                    "tool_calls": [{"id": "their-id", "function": {"name": "functions.read", "arguments": CALLED}}],
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    "openai-responses": {
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SIGNED"},
            {"type": "message", "content": [{"type": "output_text", "text": "Reading."}], "phase": "commentary"},
            {"type": "function_call", "call_id": "their-id", "name": "functions.read", "arguments": CALLED},
        ],
    },
    "anthropic": {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "SIGNED"},
            {"type": "redacted_thinking", "data": "SIGNED"},
            {"type": "text", "text": "Reading."},
            {"type": "tool_use", "id": "their-id", "name": "functions.read", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {"text": "Reading.", "thoughtSignature": "SIGNED"},
                        {
                            "functionCall": {"name": "functions.read", "args": {"path": "a"}, "id": "their-id"},
                            "thoughtSignature": "SIGNED",
                        },
                    ]
                },
                "finishReason": "STOP",
            }
        ]
    },
}
every_pair = pytest.mark.parametrize(("begun", "goes_on"), [(a, b) for a in FORMATS for b in FORMATS])


def recorded(part: Part) -> Part:
    """As the runtime writes it to the log: calls have an id of ours."""
    return msgspec.structs.replace(part, id=CallId("our-id")) if isinstance(part, Call) else part


def thread(begun: str) -> list[Turn]:
    answer = load_format(begun).parse(json.dumps(ANSWERS[begun]).encode(), MODELS[begun])
    outcome = Outcome(
        call=CallId("our-id"), tool="functions.read", text="It says:", media=(Media(mime="image/png", data=PNG),)
    )
    return [
        Turn(role="user", parts=(Text(text="Read a."), Media(mime="image/png", data=PNG))),
        Turn(role="assistant", parts=tuple(map(recorded, answer.parts))),
        Turn(role="user", parts=(outcome,)),
    ]


def sent(turns: list[Turn], goes_on: str) -> str:
    format, model = load_format(goes_on), MODELS[goes_on]
    fragments = [format.encode_turn(turn, model) for turn in turns]
    body = format.body(Request(head=format.encode_head(Head(system="s"), model), turns=fragments), model).decode()
    assert isinstance(json.loads(body), dict)
    return body


@every_pair
def test_what_one_format_signed_goes_to_no_other(begun: str, goes_on: str) -> None:
    body = sent(thread(begun), goes_on)

    assert ("SIGNED" in body) is (begun == goes_on)
    assert ("skip_thought_signature_validator" in body) is (goes_on == "gemini" and begun != "gemini")
    assert "Reading." in body


@every_pair
def test_a_call_and_its_outcome_keep_the_same_id_and_a_name_that_is_taken(begun: str, goes_on: str) -> None:
    body = sent(thread(begun), goes_on)

    assert body.count("our-id") == 2
    assert "their-id" not in body
    assert set(re.findall(r'"name":"([^"]*)"', body)) == {"functions_read"}


@every_pair
def test_pictures_of_the_user_and_of_tools_go_along(begun: str, goes_on: str) -> None:
    assert sent(thread(begun), goes_on).count(PNG) == 2


@pytest.mark.parametrize("goes_on", FORMATS)
def test_a_picture_that_a_model_made_is_shown_or_told_of(goes_on: str) -> None:
    made = Turn(role="assistant", parts=(Media(mime="image/png", data=PNG, name="cat.png"),))

    body = sent([Turn(role="user", parts=(Text(text="Draw."),)), made], goes_on)

    assert (PNG in body) is (goes_on == "gemini")
    assert ("[image/png file cat.png]" in body) is (goes_on != "gemini")


@pytest.mark.parametrize("goes_on", FORMATS)
@pytest.mark.parametrize(
    ("media", "words"),
    [
        (Media(mime="text/csv", data="YSxi", name="b.csv"), "[text/csv file b.csv]\na,b"),
        (Media(mime="application/json", data="e30=", name="c.json"), "[application/json file c.json]\n{}"),
        (Media(mime="image/svg+xml", data="PHN2Zz4=", name="d.svg"), "[image/svg+xml file d.svg]\n<svg>"),
        (Media(mime="application/zip", data="UEs=", name="e.zip"), "[application/zip file e.zip]"),
        (Media(mime="text/plain", data="YSx", name="f.txt"), "[text/plain file f.txt]"),
        (Media(mime="image/tiff", data="SUkq", name="g.tiff"), "[image/tiff file g.tiff]"),
        (Media(mime="image/png", path="/attachments/h.png"), "[image/png file /attachments/h.png]"),
    ],
)
def test_a_file_that_no_provider_takes_becomes_its_text_or_its_name(goes_on: str, media: Media, words: str) -> None:
    """One that is refused would be refused with every later request of its thread."""
    outcome = Outcome(call=CallId("c"), tool="read", media=(media,))

    body = sent([Turn(role="user", parts=(media,)), Turn(role="user", parts=(outcome,))], goes_on)

    assert body.count(json.dumps(words)[1:-1]) == 2
    assert media.data is None or f'"{media.data}' not in body


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("parts", [(), (Text(text=" \n"),), (Text(text=""), Text(text=""))])
def test_a_user_who_says_nothing_still_takes_a_turn(name: str, parts: tuple[Part, ...]) -> None:
    assert "(empty)" in sent([Turn(role="user", parts=parts)], name)


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_character_does_not_cost_the_answer(name: str) -> None:
    body = json.dumps(ANSWERS[name]).replace("Reading.", "Read\\ud83d")

    answer = load_format(name).parse(body.encode(), MODELS[name])

    assert [p.text for p in answer.parts if isinstance(p, Text)] == ["Read\ufffd"]


def test_what_is_told_between_two_flushes_is_one_delta() -> None:
    deltas: list[Delta] = []
    reader = load_format("openai-chat").reader("m", deltas.append)
    for said in ({"reasoning": "H"}, {"reasoning": "m"}, {"content": "a"}, {"content": "b"}):
        reader.feed(json.dumps({"choices": [{"delta": said}]}).encode())
    reader.flush()
    reader.flush()

    assert deltas == [Delta(kind="thinking", text="Hm"), Delta(kind="text", text="ab")]


FIELDS: dict[str, object] = {"model": "m", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"schema": {}}}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (b"{}", {}),
        (b'{"seed":7}', {"seed": 7}),
        (b'{"reasoning":{"summary":null}}', {"reasoning": {"effort": "low", "summary": None}}),
        (b'{"reasoning":null}', {"reasoning": None}),
        (b'{"model":{"a":1}}', {"model": {"a": 1}}),
        (b'{"text":{"verbosity":"low"}}', {"text": {"schema": {}, "verbosity": "low"}}),
    ],
)
def test_options_go_over_the_fields(options: bytes, changed: dict[str, object]) -> None:
    assert msgspec.json.decode(open_object(FIELDS, options, ()) + b"}") == {**FIELDS, **changed}
