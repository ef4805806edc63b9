"""What is shown while it happens, and what of it is kept."""

import asyncio

import pytest

from retinue.models.script import CallTool, Say
from retinue.ports.tool import ToolContext
from retinue.runtime.follow import Happened
from retinue.runtime.live import Cursor, Partial, Piece
from retinue.schema.events.steps import CallSettled, ModelAnswered
from retinue.schema.ids import ThreadId
from retinue.testing.harness import log_of
from retinue.tools.function import tool
from support.agents import agent
from support.opening import OpenApp

THREAD = ThreadId("t")


@pytest.mark.spec("RUN-14")
async def test_what_a_call_prints_reaches_who_watches_before_the_call_is_over_and_never_the_log(
    open_app: OpenApp,
) -> None:
    seen = asyncio.Event()

    @tool(effect="write")
    async def build(context: ToolContext) -> str:
        """Print, and come back when somebody has seen it."""
        context.progress("compiling\n")
        context.progress("linking\n")
        await seen.wait()
        return "built"

    script = [Say(calls=(CallTool("build", {}),)), Say(text="done")]
    async with open_app(script, agents=[agent("calc", "build")], tools=[build]) as app, asyncio.timeout(10):
        thread, said, answered = await app.start("calc", "go"), "", 0
        async for item in app.engine.follow(thread):
            if isinstance(item, Piece) and item.kind == "output":
                assert (item.event, item.offset) == (answered, len(said))
                said += item.text
                seen.set() if said == "compiling\nlinking\n" else None
            elif isinstance(item, Happened) and isinstance(item.event, ModelAnswered):
                answered = item.seq
            elif isinstance(item, Happened) and isinstance(item.event, CallSettled):
                break
        await app.engine.wait(thread)
        log = await log_of(app, thread)
    assert said == "compiling\nlinking\n"
    assert "linking" not in str(log)


@pytest.mark.spec("RUN-14")
def test_of_what_calls_print_the_last_part_is_kept_and_a_reader_sees_the_gap() -> None:
    partial, quick, slow = Partial(7, 1), Cursor(), Cursor()
    partial.add("output", "a" * 40_000)
    [first] = quick.take(THREAD, partial)
    partial.add("output", "b" * 40_000)
    partial.add("output", "c" * 100_000)
    assert (first.offset, len(first.text)) == (0, 40_000)
    [last] = quick.take(THREAD, partial)
    assert [last] == slow.take(THREAD, partial)
    assert (last.offset + len(last.text), set(last.text)) == (180_000, {"c"})
    assert len(last.text) <= 64 * 1024
    assert quick.take(THREAD, partial) == []


@pytest.mark.spec("RUN-14")
def test_pieces_of_a_kind_are_joined_and_carry_their_offset() -> None:
    partial, cursor = Partial(7, 1), Cursor()
    for kind, text in (("thinking", "hm"), ("text", "a"), ("text", "b")):
        partial.add("thinking" if kind == "thinking" else "text", text)
    assert [(p.kind, p.offset, p.text) for p in cursor.take(THREAD, partial)] == [
        ("thinking", 0, "hm"),
        ("text", 0, "ab"),
    ]
    partial.add("text", "c")
    assert cursor.take(THREAD, partial) == [Piece(THREAD, 7, 1, "text", 2, "c")]
