"""Requests: what is in memory equals what the log rebuilds, and a step encodes only what is new."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retinue.models.provider import ProviderConfig, WireModel
from retinue.models.script import CallTool, Say
from retinue.models.transport import Transport
from retinue.ports.model import Head, Model
from retinue.runtime.context import Context, build
from retinue.runtime.perspective import Perspective
from retinue.schema.events.runs import GraceStarted, MessageReceived, TurnEnded
from retinue.schema.events.steps import CallSettled, ContextCompacted, ModelAnswered, ModelAsked
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import CallId, MessageId, ThreadId, call_id
from retinue.schema.message import Call, Outcome, Part, Text, Thinking
from retinue.schema.thread import SideName
from retinue.testing.harness import log_of, scripted_app
from support.agents import add, agent

THREAD = ThreadId("11111111-1111-4111-8111-111111111111")
HEAD = Head(system="You are one.")


def wire(format: str) -> Model:
    config = ProviderConfig(name="p", format=format, base_url="http://127.0.0.1:9/v1")  # pyright: ignore[reportArgumentType]
    return WireModel(config, "m", transport=Transport(), env={})


FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini")

texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1, max_size=20)


@st.composite
def logs(draw: st.DrawFn) -> list[AnyEvent]:
    """Logs such as the loop writes: messages, asks, answers with calls, outcomes in any order, compactions."""
    dual = draw(st.booleans())
    log: list[AnyEvent] = [MessageReceived(at=0, id=MessageId("m0"), parts=(Text(text=draw(texts)),))]
    side: SideName = "a"
    for step in range(draw(st.integers(1, 6))):
        log.append(ModelAsked(at=0, step=step + 1, side=side, model="p/m", format="f"))
        parts: list[Part] = [Thinking(text="hm")] if draw(st.booleans()) else []
        if draw(st.booleans()):
            parts.append(Text(text=draw(texts)))
        calls = [
            Call(id=call_id(THREAD, len(log) + 1, n), tool="add", arguments='{"a":1}')
            for n in range(draw(st.integers(0, 3)))
        ]
        log.append(ModelAnswered(at=0, side=side, parts=(*parts, *calls)))
        log += [
            CallSettled(at=0, outcome=Outcome(call=call.id, tool="add", text=draw(texts) * 100))
            for call in draw(st.permutations(calls))
        ]
        if draw(st.booleans()):
            log.append(
                MessageReceived(
                    at=0,
                    id=MessageId(f"m{step}"),
                    parts=(Text(text=draw(texts)),),
                    side=draw(st.sampled_from(("a", "b"))),
                )
            )
        if draw(st.integers(0, 4)) == 0:
            log.append(_compaction(log, side, draw))
        if draw(st.integers(0, 6)) == 0:
            log.append(GraceStarted(at=0, recovering_from="max_steps", text="Answer now."))
        if dual and not calls and draw(st.booleans()):
            log.append(TurnEnded(at=0, side=side, why="response", text=draw(st.none() | texts)))
            side = "b" if side == "a" else "a"
    return log


def _compaction(log: Sequence[AnyEvent], side: SideName, draw: st.DrawFn) -> ContextCompacted:
    perspective = Perspective(side)
    roles = [turn.role for event in log for turn in perspective.feed(event)]
    starts = [0, *(i for i, role in enumerate(roles) if role == "assistant")]
    calls = [p.id for e in log if isinstance(e, ModelAnswered) for p in e.parts if isinstance(p, Call)]
    trimmed: list[CallId] = draw(st.lists(st.sampled_from(calls), unique=True)) if calls else []
    kept = draw(st.sampled_from(starts))
    return ContextCompacted(at=0, side=side, summary="so far" if kept else "", kept_from=kept, trimmed=tuple(trimmed))


@pytest.mark.spec("RUN-01", "RUN-10")
@pytest.mark.parametrize("format", FORMATS)
@given(log=logs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_request_in_memory_equals_the_request_rebuilt_from_the_log_at_every_step(
    format: str, log: list[AnyEvent]
) -> None:
    model = wire(format)
    for side in ("a", "b"):
        live: Context = build(model, side, [])
        for n, event in enumerate(log, 1):
            live.tell(event)
            if live.stale:
                live = build(model, side, log[:n])
            rebuilt = build(model, side, log[:n])
            now, then = live.request(HEAD), rebuilt.request(HEAD)
            assert [f.data for f in now.turns] == [f.data for f in then.turns]
            assert live.chain(now) == rebuilt.chain(then)


@pytest.mark.spec("SUB-05", "RUN-10")
@given(log=logs())
@settings(max_examples=200, deadline=None)
def test_turns_alternate_begin_with_user_are_never_empty_and_keep_calls_with_their_outcomes(
    log: list[AnyEvent],
) -> None:
    for side in ("a", "b"):
        compacted = next((e for e in reversed(log) if isinstance(e, ContextCompacted) and e.side == side), None)
        perspective = Perspective(side, compacted=compacted)
        turns = [turn for event in log for turn in perspective.feed(event)] + [*perspective.open_turns()]
        roles = [turn.role for turn in turns]
        assert roles == ["user" if i % 2 == 0 else "assistant" for i in range(len(roles))]
        called: set[str] = set()
        for turn in turns:
            assert turn.parts
            called |= {p.id for p in turn.parts if isinstance(p, Call)}
            assert {p.call for p in turn.parts if isinstance(p, Outcome)} <= called


@pytest.mark.spec("RUN-02")
async def test_the_bytes_encoded_in_a_step_do_not_grow_with_the_thread(tmp_path: Path) -> None:
    steps = 60
    script = [*(Say(calls=(CallTool("add", {"a": n, "b": 1}),)) for n in range(steps)), Say(text="done")]
    async with scripted_app(tmp_path, script, agents=[agent("calc", "add", max_steps=100)], tools=[add]) as app:
        completion = await app.run("calc", "go")
        log = await log_of(app, completion.thread)
    context = build(wire("openai-chat"), "a", [])
    added: list[int] = []
    for event in log:
        if isinstance(event, ModelAsked):
            before = context.encoded
            context.request(HEAD)
            added.append(context.encoded - before)
        before = context.encoded
        context.tell(event)
        added[-1:] = [added[-1] + context.encoded - before] if added else []
    assert len(added) == steps + 1
    assert max(added[5:]) <= min(added[5:-1]) + 8
