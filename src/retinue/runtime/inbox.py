"""Draining: what was said to a thread becomes events of its log, in order."""

import msgspec

from retinue.ports.store import InboxEntry
from retinue.runtime import children, ending, variables
from retinue.runtime.history import hooked
from retinue.runtime.work import Work
from retinue.schema import inbox
from retinue.schema.events.people import QuestionSettled
from retinue.schema.events.runs import MessageReceived
from retinue.schema.ids import MessageId


async def drain(work: Work) -> None:
    """Move everything that waits in the inbox into the log. Staged: the next flush makes it durable."""
    while work.inbox_head > work.drained:
        entries = await work.runtime.store.inbox(work.thread, after=work.drained)
        if not entries:
            break
        for stored in entries:
            await _take(work, stored.entry)
            work.drain_to(stored.position)
    work.flight.abort_asked = False


async def _take(work: Work, entry: InboxEntry) -> None:
    if work.state.status == "terminated":
        return
    match entry.kind:
        case "message":
            await receive(work, entry.id, msgspec.json.decode(entry.data, type=inbox.Message))
        case "answer":
            _answer(work, msgspec.json.decode(entry.data, type=inbox.Answer))
        case "interrupt":
            ending.interrupt(work, msgspec.json.decode(entry.data, type=inbox.Control))
        case "resume":
            ending.resume(work, "interrupt")
        case "cancel":
            ending.cancel(work, msgspec.json.decode(entry.data, type=inbox.Control))
        case "terminate":
            ending.terminate(work, msgspec.json.decode(entry.data, type=inbox.Control))
        case "child":
            await children.report(work, msgspec.json.decode(entry.data, type=inbox.ChildReport), entry.id)
        case "variables":
            await variables.provide(work, msgspec.json.decode(entry.data, type=inbox.Variables))
        case "nudge":
            pass


async def receive(work: Work, id: str, message: inbox.Message) -> None:
    ids = work.state.pin.definition.hooks
    message = await hooked(work, ids, "before_create_message", message)
    ending.resume(work, "message")
    work.record(
        *message.files,
        MessageReceived(
            at=work.now,
            id=MessageId(id),
            parts=message.parts,
            side=message.side,
            silent=message.silent,
            sender=message.sender,
            inputs=message.inputs,
        ),
    )
    await hooked(work, ids, "after_create_message", message)


def _answer(work: Work, given: inbox.Answer) -> None:
    """An answer to a question that is no longer open changes nothing."""
    asked = work.state.questions.get(given.question)
    if asked is None:
        return
    work.record(
        *given.files,
        QuestionSettled(
            at=work.now,
            id=asked.id,
            call=asked.call,
            answer=given.answer,
            scope=given.scope,
            pattern=given.pattern,
            by=given.by,
        ),
    )
