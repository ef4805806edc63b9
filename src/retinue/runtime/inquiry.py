"""Questions of a call that is running: an MCP server's request for input, say.

The call stays in this process and waits, while the question is an event like any
other: listed, answered from anywhere, and withdrawn when the call ends first. The
run's time stands still meanwhile. When the process ends, the call is `interrupted`.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from retinue.ports.tool import Inquiry
from retinue.runtime.state import CallState
from retinue.schema import inbox
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import RunResumed, RunWaiting
from retinue.schema.events.steps import CallStarted
from retinue.schema.ids import QuestionId, question_id

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_PATIENCE = 24 * 3600.0


async def inquire(work: "Work", state: CallState, inquiry: Inquiry) -> object:
    """Ask, wait and return the answer; None when nobody answered in time."""
    asked = QuestionAsked(
        at=work.now,
        id=question_id(state.call.id, f"inquiry:{work.state.head}"),
        call=state.call.id,
        kind=inquiry.kind,
        prompt=inquiry.prompt,
        choices=inquiry.choices,
        tool=state.call.tool,
        expires=work.now + _PATIENCE,
    )
    spent = round(work.spent(), 3)
    if not state.started:
        work.record(CallStarted(at=work.now, call=asked.call))
    work.record(asked, RunWaiting(at=work.now, waiting_for="question", spent=spent, until=asked.expires))
    settled = QuestionSettled(at=work.now, id=asked.id, call=asked.call, status="withdrawn")
    try:
        await work.flush()
        with work.flight.paused():
            given = await _reply(work, asked.id)
        answered = QuestionSettled(at=work.now, id=asked.id, call=asked.call, status="expired")
        if given is not None:
            answered = msgspec.structs.replace(answered, status="answered", answer=given.answer, by=given.by)
        settled = answered
    finally:
        work.record(settled, RunResumed(at=work.now, spent=spent, after="question"))
    await work.flush()
    return settled.answer


async def _reply(work: "Work", question: QuestionId) -> inbox.Answer | None:
    """The answer as it lies in the inbox; draining passes over it later, because the question is closed then."""
    try:
        async with asyncio.timeout(_PATIENCE):
            while True:
                work.news.clear()
                for stored in await work.runtime.store.inbox(work.thread, after=work.drained):
                    if stored.entry.kind == "answer":
                        given = msgspec.json.decode(stored.entry.data, type=inbox.Answer)
                        if given.question == question:
                            return given
                await work.news.wait()
    except TimeoutError:
        return None
