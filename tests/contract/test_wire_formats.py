"""What every wire format promises, whatever it speaks.

Answers do not depend on how the network cuts them; requests are built from turns
that were encoded once, cost a step only what is new, and are the same when the
turns come back from the log.
"""

import itertools
import json
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.models.formats import FORMATS, load_format
from retinue.models.sse import Splitter
from retinue.models.wire import Format
from retinue.ports.model import Answer, Delta, Fragment, Head, Request
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, OutcomeStatus, Part, Text, Thinking, Turn
from retinue.schema.tool import ToolSpec

MODEL = "some-model"
HEAD = Head(
    system="You work.",
    tools=(ToolSpec(name="do", description="Does it.", parameters={"type": "object", "properties": {}}),),
    max_tokens=100,
)
every_format = pytest.mark.parametrize("name", FORMATS)

CHAT = (
    b": keep-alive\n\n"
    b'data: {"choices":[{"delta":{"role":"assistant","content":null,"reasoning_content":"h\xc3\xb6"}}]}\r\n\r\n'
    b'data: {"choices":[{"delta":{"content":"gr\xc3\xbc\xc3\x9fe \xf0\x9f\x90\x9d"}}]}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"do","arguments":""}}]}}]}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\":"}}]}}]}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"\xc3\xa9\\"}"}}]}}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}\n\n'
    b"data: [DONE]\n\n"
)
MESSAGES = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}\n\n'
    b'event: ping\ndata: {"type":"ping"}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n'
    b'event: content_block_delta\r\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"thinking_delta","thinking":"h\xc3\xb6"}}\r\n\r\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"signature_delta","signature":"s=="}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
    b'"delta":{"type":"text_delta","text":"gr\xc3\xbc\xc3\x9fe \xf0\x9f\x90\x9d"}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":2,'
    b'"content_block":{"type":"tool_use","id":"t1","name":"do","input":{}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    b'"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":\\"\xc3\xa9\\"}"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
    b'"usage":{"output_tokens":9}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
STREAMS = {"openai-chat": CHAT, "anthropic": MESSAGES}


class Heard(msgspec.Struct):
    answer: Answer
    text: str
    thinking: str
    calls: list[str]


def hear(name: str, reads: Sequence[bytes]) -> Heard:
    deltas = list[Delta]()
    splitter, reader = Splitter(), load_format(name).reader(MODEL, deltas.append)
    for read in reads:
        for data in splitter.feed(read):
            reader.feed(data)
    for data in splitter.finish():
        reader.feed(data)
    reader.flush()
    said = {kind: [d.text for d in deltas if d.kind == kind] for kind in ("text", "thinking", "call")}
    return Heard(reader.answer(), "".join(said["text"]), "".join(said["thinking"]), said["call"])


@pytest.mark.spec("MOD-01")
@pytest.mark.parametrize("name", STREAMS)
def test_a_vector_is_read_as_it_is_meant(name: str) -> None:
    heard = hear(name, [STREAMS[name]])

    thinking, text, call = heard.answer.parts
    assert isinstance(thinking, Thinking)
    assert isinstance(call, Call)
    assert (thinking.text, text, call.tool) == ("hö", Text(text="grüße 🐝"), "do")
    assert json.loads(call.arguments) == {"a": "é"}
    assert (heard.text, heard.thinking, heard.calls) == ("grüße 🐝", "hö", ["do"])
    assert (heard.answer.finish, heard.answer.usage.input, heard.answer.usage.output) == ("calls", 7, 9)


@pytest.mark.spec("MOD-01")
@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_cut_in_two_anywhere_is_the_same(name: str) -> None:
    stream = STREAMS[name]
    whole = hear(name, [stream])

    for at in range(len(stream) + 1):
        assert hear(name, [stream[:at], stream[at:]]) == whole
    assert hear(name, [stream[i : i + 1] for i in range(len(stream))]) == whole


@pytest.mark.parametrize("name", STREAMS)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_an_answer_cut_in_any_pieces_is_the_same(name: str, data: st.DataObject) -> None:
    stream = STREAMS[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in itertools.pairwise([0, *cuts, len(stream)])]

    assert hear(name, pieces) == hear(name, [stream])


def step(number: int) -> tuple[Turn, Turn]:
    call = CallId(f"00000000-0000-0000-0000-{number:012d}")
    return (
        Turn(role="assistant", parts=(Text(text="Next."), Call(id=call, tool="do", arguments='{"n":1}'))),
        Turn(role="user", parts=(Outcome(call=call, tool="do", text="x" * 500),)),
    )


class Counting:
    """A format that counts the bytes it encodes."""

    def __init__(self, format: Format) -> None:
        self._format = format
        self.encoded = 0

    def head(self, head: Head) -> Fragment:
        return self._counted(self._format.encode_head(head, MODEL))

    def turn(self, turn: Turn) -> Fragment:
        return self._counted(self._format.encode_turn(turn, MODEL))

    def _counted(self, fragment: Fragment) -> Fragment:
        self.encoded += len(fragment.data)
        return fragment


@every_format
@pytest.mark.spec("MOD-01")
def test_a_step_encodes_what_is_new_however_long_the_thread_is(name: str) -> None:
    format = load_format(name)
    counting = Counting(format)
    head = counting.head(HEAD)
    turns = [counting.turn(Turn(role="user", parts=(Text(text="Go."),)))]
    per_step: list[int] = []
    for number in range(200):
        before = counting.encoded
        turns += map(counting.turn, step(number))
        body = format.body(Request(head=head, turns=turns, tail="Children: none"), MODEL)
        per_step.append(counting.encoded - before)
        assert len(body) > sum(len(turn.data) for turn in turns)

    assert len(set(per_step)) == 1


@every_format
def test_a_body_holds_every_turn_as_it_was_encoded(name: str) -> None:
    """All but the last turns, where marks and volatile text go, are there byte for byte and in order."""
    format = load_format(name)
    turns = [format.encode_turn(turn, MODEL) for number in range(10) for turn in step(number)]

    body = format.body(Request(head=format.encode_head(HEAD, MODEL), turns=turns, tail="Hurry."), MODEL)

    at = 0
    for turn in turns[:-3]:
        at = body.index(turn.data, at) + len(turn.data)


texts = st.sampled_from(["", " ", "Hi.", 'He said "no"\n\\', "größe 🐝", "\u2028"])
ids = st.sampled_from([CallId("a"), CallId("b:c/ü"), CallId("7d7f0b1e-2f3b-5a67-9c1d-000000000001")])
arguments = st.sampled_from(["", "{}", '{"a": 1}', '{"a', "[1]", "null", '{"ü":"🐝"}'])
statuses: st.SearchStrategy[OutcomeStatus] = st.sampled_from(["ok", "error", "denied", "skipped"])
media = st.builds(
    Media, mime=st.sampled_from(["image/png", "text/plain", "application/pdf"]), data=st.sampled_from([None, "YWJj"])
)
opaques = st.builds(
    Opaque, format=st.just("other"), model=st.just("other"), data=st.just(msgspec.Raw(b'{"never":"sent"}'))
)
said: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text=texts),
    st.builds(Thinking, text=texts, opaque=st.none() | opaques),
    st.builds(Call, id=ids, tool=st.just("do"), arguments=arguments, opaque=st.none() | opaques),
)
heard: st.SearchStrategy[Part] = st.one_of(st.builds(Text, text=texts), media)
outcomes: st.SearchStrategy[Part] = st.builds(
    Outcome,
    call=ids,
    tool=st.just("do"),
    status=statuses,
    text=texts,
    media=st.lists(media, max_size=1).map(lambda m: tuple(m)),
)


@st.composite
def threads(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    for index in range(draw(st.integers(1, 5))):
        if index % 2:
            turns.append(Turn(role="assistant", parts=tuple(draw(st.lists(said, max_size=4)))))
        else:
            first = draw(st.lists(outcomes, max_size=2)) if index else []
            turns.append(Turn(role="user", parts=(*first, *draw(st.lists(heard, max_size=3)))))
    return turns


@every_format
@settings(deadline=None, max_examples=40)
@given(turns=threads(), tail=st.sampled_from(["", 'Say "hi"\n']), stream=st.booleans())
def test_any_thread_makes_a_request_that_is_json_and_leaks_nothing(
    name: str, turns: list[Turn], tail: str, stream: bool
) -> None:
    format = load_format(name)
    fragments = [format.encode_turn(turn, MODEL) for turn in turns]

    body = format.body(Request(head=format.encode_head(HEAD, MODEL), turns=fragments, tail=tail, stream=stream), MODEL)

    assert isinstance(json.loads(body), dict)
    assert b"never" not in body


@every_format
@settings(deadline=None, max_examples=40)
@given(turns=threads())
def test_turns_that_come_back_from_the_log_are_encoded_the_same(name: str, turns: list[Turn]) -> None:
    format = load_format(name)
    log = msgspec.json.encode(turns)
    again = msgspec.json.decode(log, type=list[Turn])

    assert [format.encode_turn(t, MODEL) for t in again] == [format.encode_turn(t, MODEL) for t in turns]


@pytest.mark.spec("MOD-01")
@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_that_comes_back_from_the_log_is_sent_back_the_same(name: str) -> None:
    format = load_format(name)
    turn = Turn(role="assistant", parts=hear(name, [STREAMS[name]]).answer.parts)
    again = msgspec.json.decode(msgspec.json.encode(turn), type=Turn)

    assert format.encode_turn(again, MODEL) == format.encode_turn(turn, MODEL)
    assert "hö".encode() in format.encode_turn(turn, MODEL).data
    assert "hö".encode() not in format.encode_turn(turn, "another-model").data


class Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, object]] | None


@pytest.mark.parametrize("name", STREAMS)
@settings(deadline=None, max_examples=40)
@given(turns=threads(), tail=st.sampled_from(["", "Hurry."]))
def test_roles_never_double_and_no_message_is_empty(name: str, turns: list[Turn], tail: str) -> None:
    class Body(msgspec.Struct):
        messages: list[Message]

    format = load_format(name)
    fragments = [format.encode_turn(turn, MODEL) for turn in turns]
    head = format.encode_head(Head(system=""), MODEL)
    body = msgspec.json.decode(format.body(Request(head=head, turns=fragments, tail=tail), MODEL), type=Body)

    for a, b in itertools.pairwise(body.messages):
        assert a.role != b.role or a.role == "tool"
    for message in body.messages:
        assert message.content not in ("", [])
        if isinstance(message.content, list):
            assert all(str(block.get("text", "x")).strip() for block in message.content if name == "anthropic")
