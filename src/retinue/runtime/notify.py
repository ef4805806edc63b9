"""Words from a child to its parent: status updates and notices, in one commit with the child's own log."""

from typing import TYPE_CHECKING

import msgspec

from retinue.ports.store import InboxEntry
from retinue.schema.inbox import ChildReport

if TYPE_CHECKING:
    from retinue.runtime.work import Work


async def set_status(work: "Work", status: str) -> None:
    """Publish a status text in the parent's registry; a root has nobody to tell."""
    _report(work, ChildReport(child=work.thread, kind="status", text=status), "status")


async def notify_parent(work: "Work", content: str) -> None:
    """Queue a message to the parent, whatever the communication mode."""
    _report(work, ChildReport(child=work.thread, kind="notice", text=content), "notice")


def _report(work: "Work", report: ChildReport, purpose: str) -> None:
    path = work.state.thread.path
    if path:
        id = f"{work.thread}:{purpose}:{work.state.head}"
        work.send(path[-1].thread, InboxEntry(id=id, kind="child", data=msgspec.json.encode(report), at=work.now))
