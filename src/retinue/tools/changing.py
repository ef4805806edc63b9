"""What `write`, `edit` and `multi_edit` share: arguments become a plan, which is shown first and made later."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from retinue.ports.tool import Inspection, Result, ToolContext
from retinue.schema.tool import ToolSpec
from retinue.tools.attempt import Failed, unreadable
from retinue.tools.change import Change, Plan, inspect_changes, make_changes

_MOST_SHOWN = 80
"""Lines of a diff that the model is shown; people see all of it."""


class ChangingTool:
    spec: ClassVar[ToolSpec]

    def plan(self, arguments: Mapping[str, object]) -> Plan:
        """Raises `Failed` when the arguments make no sense."""
        raise NotImplementedError

    def resource(self, arguments: Mapping[str, object]) -> str:
        """The path, and of several the first; the others are judged as targets."""
        try:
            return next(iter(self.plan(arguments).ops))
        except Failed:
            return str(arguments.get("path") or "")

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        try:
            return await asyncio.to_thread(inspect_changes, self.plan(arguments), context)
        except Failed as failed:
            return Inspection(failure=failed.result)
        except OSError as error:
            return Inspection(failure=unreadable(error))

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        try:
            return _told(await asyncio.to_thread(make_changes, self.plan(arguments), context))
        except Failed as failed:
            return failed.result
        except OSError as error:
            return unreadable(error)


def _told(changes: list[Change]) -> Result:
    """What was done, with a diff where it is short enough to be worth reading."""
    parts: list[str] = []
    for change in changes:
        verb = "Created" if change.before is None else "Removed" if change.after is None else "Changed"
        if change.before == change.after:
            verb = "Left unchanged"
        lines = change.diff.count("\n")
        shown = f"\n{change.diff}" if change.before is not None and 0 < lines <= _MOST_SHOWN else ""
        size = f" ({len(change.after):,} bytes)" if change.after is not None else ""
        parts.append(f"{verb} {change.found.target.path}{size}.{shown}")
    paths = [change.found.target.path for change in changes]
    return Result(text="\n".join(parts), metadata={"paths": paths, "diff": "".join(c.diff for c in changes)})
