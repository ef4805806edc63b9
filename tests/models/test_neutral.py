"""What is encoded neutrally is read back as it was."""

import msgspec

from retinue.models import neutral
from retinue.ports.model import Head
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Text, Thinking, Turn
from retinue.schema.tool import ToolSpec


def test_a_head_is_read_back() -> None:
    tool = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})
    head = Head(system="S", tools=(tool,), temperature=0.5, output_schema=b'{"type":"object"}', options=b'{"a":1}')

    assert neutral.decode_head(neutral.encode_head(head)) == head


def test_turns_are_read_back_and_counted_without_reading() -> None:
    opaque = Opaque(format="gemini", model="m", data=msgspec.Raw(b'{"thoughtSignature":"s"}'))
    said = Turn(
        role="assistant",
        parts=(
            Thinking(text="Hm", opaque=opaque),
            Text(text='{"role":"user"'),
            Call(id=CallId("c"), tool="read", arguments="{}", opaque=opaque),
        ),
    )
    asked = Turn(
        role="user",
        parts=(
            Outcome(call=CallId("c"), tool="read", text="ok", media=(Media(mime="image/png", data="iVBO"),)),
            Text(text='{"role":"assistant"'),
        ),
    )

    turns = (asked, said, asked, Turn(role="assistant", parts=()))
    fragments = [neutral.encode_turn(turn) for turn in turns]

    assert tuple(map(neutral.decode_turn, fragments)) == turns
    assert neutral.count_assistant(fragments) == 2
