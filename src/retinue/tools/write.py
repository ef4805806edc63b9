"""write: creates a file or replaces all of it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from retinue.ports.tool import Inspection, Result, ToolContext
from retinue.tools.attempt import Failed, attempt, declare, taken
from retinue.tools.change import Change, Plan, inspect_changes, make_changes

_MOST_SHOWN = 80
"""Lines of a diff that the model is shown; people see all of it."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Absolute, or relative to the workspace.")]
    content: Annotated[str, msgspec.Meta(description="The whole content of the file.")]


class Write:
    spec = declare(
        "write",
        "Creates a file, with the folders it needs, or replaces the whole content of one. "
        "An existing file must have been read first; to change a part of it use `edit`.",
        Arguments,
        "idempotent",
    )

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("path", ""))

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        return await inspected(lambda: _plan(taken(Arguments, arguments)), context)

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(_write, Arguments, arguments, context)


async def inspected(plan: Callable[[], Plan], context: ToolContext) -> Inspection:
    def look() -> Inspection:
        try:
            return inspect_changes(plan(), context)
        except Failed as failed:
            return Inspection(failure=failed.result)

    return await asyncio.to_thread(look)


def told(changes: list[Change]) -> Result:
    """What was done, with a diff where it is short enough to be worth reading."""
    parts: list[str] = []
    for change in changes:
        lines = change.diff.splitlines()
        verb = "Created" if change.before is None else "Removed" if change.after is None else "Changed"
        if change.before == change.after:
            verb = "Left unchanged"
        shown = f"\n{change.diff}" if change.before is not None and 0 < len(lines) <= _MOST_SHOWN else ""
        size = f" ({len(change.after):,} bytes)" if change.after is not None else ""
        parts.append(f"{verb} {change.found.target.path}{size}.{shown}")
    paths = [change.found.target.path for change in changes]
    return Result(text="\n".join(parts), metadata={"paths": paths, "diff": "".join(c.diff for c in changes)})


def _plan(arguments: Arguments) -> Plan:
    return Plan(ops={arguments.path: "write"}, revise=lambda _: {arguments.path: arguments.content})


def _write(arguments: Arguments, context: ToolContext) -> Result:
    return told(make_changes(_plan(arguments), context))
