import pytest

from retinue.app.conversation import Entry, conversation, markdown, result_text
from retinue.schema.agent import AgentDefinition
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import MessageReceived
from retinue.schema.events.steps import CallSettled, ContextCompacted, ModelAnswered, ModelAsked, ModelFailed
from retinue.schema.events.threads import Pin, ThreadStarted
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import AgentId, CallId, MessageId, QuestionId, Seq, ThreadId
from retinue.schema.message import Call, Media, Outcome, Part, Text, Thinking

THREAD = ThreadId("8c1e2f3a-0000-4000-8000-000000000000")


def log(*events: AnyEvent) -> list[tuple[Seq, AnyEvent]]:
    definition = AgentDefinition(id=AgentId("coder"), name="Coder")
    return list(enumerate([ThreadStarted(at=0, thread=THREAD, pin=Pin(definition=definition)), *events], 1))


def said(text: str) -> MessageReceived:
    return MessageReceived(at=0, id=MessageId(text), parts=(Text(text=text),))


def answered(*parts: Part) -> ModelAnswered:
    return ModelAnswered(at=0, parts=parts)


def call(id: str) -> Call:
    return Call(id=CallId(id), tool="read", arguments='{"path":"x"}')


def settled(id: str, text: str = "content") -> CallSettled:
    return CallSettled(at=0, outcome=Outcome(call=CallId(id), tool="read", text=text), duration=0.5)


def brief(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(e.kind, e.text) for e in entries]


def test_a_log_reads_as_who_said_what_and_what_came_of_each_call() -> None:
    asked = ModelAsked(at=0, step=1, model="m", format="f")
    entries = conversation(
        log(
            said("hello"),
            asked,
            ModelFailed(at=0, error="busy", retry_in=2.0),
            asked,
            answered(Thinking(text="Hm."), Text(text="Let me see."), call("c")),
            settled("c"),
        )
    )

    assert brief(entries) == [
        ("message", "hello"),
        ("note", "The model failed: busy. Asked again in 2 s."),
        ("thinking", "Hm."),
        ("text", "Let me see."),
        ("call", '{"path":"x"}'),
        ("outcome", "content"),
    ]
    assert (entries[0].who, entries[2].who) == ("user", "Coder")
    assert (entries[-1].status, entries[-1].duration, entries[-1].call) == ("ok", 0.5, CallId("c"))


@pytest.mark.spec("RUN-10", "OBS-04")
def test_what_compaction_hid_is_still_there_and_marked() -> None:
    entries = conversation(
        log(
            said("first"),
            answered(call("a")),
            settled("a", "long" * 500),
            answered(call("b")),
            settled("b"),
            ContextCompacted(at=0, summary="They talked.", kept_from=3, trimmed=(CallId("b"),)),
            answered(Text(text="Done.")),
        )
    )

    assert [(e.kind, e.hidden) for e in entries] == [
        ("message", True),
        ("call", True),
        ("outcome", True),
        ("call", False),
        ("outcome", False),
        ("note", False),
        ("text", False),
    ]
    assert [e.shortened for e in entries if e.kind == "outcome"] == [False, True]
    assert entries[5].text == "Compacted. They talked."
    assert "*(summarised for the model)*" in markdown("T", entries)


def test_questions_and_media_are_told() -> None:
    asked = QuestionAsked(at=0, id=QuestionId("q"), call=CallId("c"), kind="permission", prompt="May I?")
    given = QuestionSettled(at=0, id=QuestionId("q"), call=CallId("c"), scope="deny", answer="no", by="ann")
    picture = MessageReceived(at=0, id=MessageId("m"), parts=(Media(mime="image/png", name="cat.png"),))

    entries = conversation(log(picture, asked, given))

    assert brief(entries) == [("message", "[image/png cat.png]"), ("question", "May I?"), ("answer", "no")]
    assert (entries[2].who, entries[2].status) == ("ann", "deny")


def test_markdown_fences_hold_whatever_is_inside() -> None:
    document = markdown("Title", conversation(log(said("hi"), answered(call("c")), settled("c", "```\ncode\n```"))))

    assert document.startswith("# Title\n\n**user**\n\nhi\n\n")
    assert "````\n```\ncode\n```\n````" in document


def test_a_structured_result_is_json() -> None:
    assert (result_text("x"), result_text({"a": 1})) == ("x", '{\n  "a": 1\n}')
