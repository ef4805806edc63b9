"""How runs and threads end: completions, cancels, terminations, and what they owe to parent and children."""

from dataclasses import replace

import msgspec

from retinue.ports.store import InboxEntry, InboxKind
from retinue.runtime import attachments, children
from retinue.runtime.completion import Finish, completion_of
from retinue.runtime.notify import tell_parent
from retinue.runtime.work import Work
from retinue.schema import inbox
from retinue.schema.completion import Reason
from retinue.schema.events.people import QuestionSettled
from retinue.schema.events.runs import RunCompleted, RunInterrupted, RunResumed
from retinue.schema.events.steps import CallSettled
from retinue.schema.events.threads import ThreadTerminated
from retinue.schema.message import Outcome


def complete(work: Work, finish: Finish) -> None:
    """Write the completion; the parent hears of it in the same commit."""
    _close_calls(work, "The run ended before this call.")
    if finish.attachments:
        kept, lost = attachments.keep(work, finish.attachments)
        work.record(*kept)
        metadata = {**finish.metadata, "attachments_lost": lost} if lost else finish.metadata
        finish = replace(finish, attachments=tuple(file.path for file in kept), metadata=metadata)
    completion = completion_of(work.state, finish, spent=work.spent())
    work.record(RunCompleted(at=work.now, completion=completion))
    report = inbox.ChildReport(
        child=work.thread,
        kind="completed",
        completion=completion,
        attachments=finish.attachments,
        taints=tuple(sorted(work.state.taints)),
    )
    tell_parent(work, report, f"{work.thread}:run:{work.state.runs}")


def interrupt(work: Work, control: inbox.Control) -> None:
    """The run stops here and can be resumed, and so do the children; one that has not begun does not begin."""
    if work.state.status != "interrupted" and _has_work(work):
        work.record(RunInterrupted(at=work.now, by=control.by))
    _tell_children(work, "interrupt", control)


def resume(work: Work, after: str) -> None:
    """What was interrupted goes on, children included; others need no word."""
    if work.state.status != "interrupted":
        return
    work.record(RunResumed(at=work.now, spent=work.state.run.spent if work.state.run else 0.0, after=after))
    _tell_children(work, "resume", inbox.Control())
    children.start_queued(work)


def _has_work(work: Work) -> bool:
    return work.state.running or bool(work.state.unanswered)


def cancel(work: Work, control: inbox.Control) -> None:
    """The run ends, the thread stays; children of the run are cancelled with it."""
    if _has_work(work):
        _end(work, "aborted", control.reason or f"Cancelled by {control.by}.")
    _tell_children(work, "cancel", control)


def terminate(work: Work, control: inbox.Control) -> None:
    """Soft shutdown: what is in flight ends, nothing new is taken, the parent's registry says so."""
    if _has_work(work):
        _end(work, "terminated", control.reason or f"Terminated by {control.by}.")
    _tell_children(work, "terminate", control)
    work.record(ThreadTerminated(at=work.now, reason=control.reason))
    tell_parent(work, inbox.ChildReport(child=work.thread, kind="terminated"), f"{work.thread}:terminated")


def _end(work: Work, reason: Reason, error: str) -> None:
    text = work.state.run.last_text if work.state.run and work.state.running else ""
    complete(work, Finish(result=text, status="FAILED", reason=reason, error=error))


def _tell_children(work: Work, kind: InboxKind, control: inbox.Control) -> None:
    """Terminating reaches children that rest, the others only those with something to do.

    A child that waits for a slot is left asleep when the rest is interrupted: a word would wake it.
    """
    for reference, child in work.state.children.items():
        asleep = child.status == "queued" and kind in ("interrupt", "resume")
        if child.status == "terminated" or asleep or (child.done and kind != "terminate"):
            continue
        entry = InboxEntry(
            id=f"{work.thread}:{kind}:{work.state.head}",
            kind=kind,
            data=msgspec.json.encode(inbox.Control(by=control.by, reason=control.reason or "The caller ended.")),
            at=work.now,
        )
        work.send(reference, entry)


def _close_calls(work: Work, text: str) -> None:
    """Every call gets exactly one outcome, also when nobody waits for it any more."""
    for state in work.state.open_calls:
        if state.question is not None and state.reply is None:
            asked = state.question
            work.record(QuestionSettled(at=work.now, id=asked.id, call=asked.call, status="withdrawn"))
        outcome = Outcome(call=state.call.id, tool=state.call.tool, status="cancelled", text=text)
        work.record(CallSettled(at=work.now, outcome=outcome))
