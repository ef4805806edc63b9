"""Forks: a new thread that inherits a log up to a step, and pays only for what comes after."""

import msgspec

from retinue.ports.clock import Clock
from retinue.ports.store import Caps, InboxEntry, NewThread
from retinue.runtime.project import project
from retinue.schema import inbox
from retinue.schema.errors import UsageError
from retinue.schema.events.people import QuestionSettled
from retinue.schema.events.runs import MessageReceived, RunStarted
from retinue.schema.events.steps import CallSettled, ModelAsked
from retinue.schema.events.threads import Pin, SegmentStarted, ThreadForked, ThreadStarted, ThreadTerminated
from retinue.schema.events.union import AnyEvent, encode
from retinue.schema.ids import Seq, Tenant, ThreadId
from retinue.schema.message import Outcome, Text

_DROPPED = (ModelAsked, ThreadTerminated)
_REPLACED = (MessageReceived, RunStarted)
"""At the end of a log they were not answered: another message takes their place."""
FORKED = "Not carried over: this thread was forked while the call was open."


def fork(
    clock: Clock,
    log: list[tuple[Seq, AnyEvent]],
    *,
    at: Seq | None = None,
    message: str | None = None,
    model: str | None = None,
    prompt: str | None = None,
    pin: Pin | None = None,
    id: ThreadId | None = None,
) -> NewThread:
    """The thread to create. Pure: it reads the log it is given and writes nothing."""
    last = log[-1][0]
    if at is not None and not 1 <= at <= last:
        raise UsageError(f"the log has events 1 to {last}; {at} is not among them")
    kept = [event for seq, event in log if at is None or seq <= at]
    while isinstance(kept[-1], _DROPPED) or (message is not None and isinstance(kept[-1], _REPLACED)):
        kept.pop()
    first = kept[0]
    assert isinstance(first, ThreadStarted)
    id, now = id or ThreadId(clock.new_id()), clock.now()
    state = project(list(enumerate(kept, 1)))
    started = msgspec.structs.replace(
        first, thread=id, path=(), call=None, forked_from=first.thread, forked_at=len(kept), model=model or first.model
    )
    events: list[AnyEvent] = [started, *kept[1:]]
    for call in state.open_calls:
        if call.question is not None and call.reply is None:
            asked = call.question
            events.append(QuestionSettled(at=now, id=asked.id, call=asked.call, status="withdrawn"))
        outcome = Outcome(call=call.call.id, tool=call.call.tool, status="forked", text=FORKED)
        events.append(CallSettled(at=now, outcome=outcome))
    events.append(ThreadForked(at=now, source=first.thread, at_seq=len(kept)))
    if pin is not None or prompt is not None or model is not None:
        events.append(SegmentStarted(at=now, pin=_changed(pin or state.pin, prompt), model=model))
    said = inbox.Message(parts=(Text(text=message or ""),))
    entry = InboxEntry(id=clock.new_id(), kind="message", data=msgspec.json.encode(said), at=now)
    return NewThread(
        id=id,
        tenant=Tenant(first.tenant),
        root=id,
        agent=(pin or state.pin).definition.id,
        created_at=now,
        events=tuple(encode(e) for e in events),
        inbox=(entry,) if message is not None else (),
        caps=Caps(cost=first.budget.cost, tokens=first.budget.tokens),
        title=state.title,
    )


def _changed(pin: Pin, prompt: str | None) -> Pin:
    if prompt is None:
        return pin
    definition = msgspec.structs.replace(pin.definition, prompt=prompt, hash=f"{pin.definition.hash}+prompt")
    return msgspec.structs.replace(pin, definition=definition)
