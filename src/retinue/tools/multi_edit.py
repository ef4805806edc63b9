"""multi_edit: several edits of one file, or a unified diff over several files; all of it or nothing."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from retinue.ports.tool import Inspection, Op, Result, ToolContext
from retinue.tools.attempt import Failed, attempt, declare, taken
from retinue.tools.change import Plan, make_changes
from retinue.tools.edit import plan_of
from retinue.tools.edits import Replacement
from retinue.tools.patch import applied, parse
from retinue.tools.write import inspected, told


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str | None, msgspec.Meta(description="The file that `edits` change.")] = None
    edits: Annotated[
        tuple[Replacement, ...], msgspec.Meta(description="Made in order, each on what the last left.")
    ] = ()
    patch: Annotated[
        str | None,
        msgspec.Meta(description="Instead of path and edits: a unified diff, also to create, remove or rename files."),
    ] = None


class MultiEdit:
    spec = declare(
        "multi_edit",
        "Makes several changes at once, or none if one of them does not fit: either `path` and `edits`, "
        "or `patch`, a unified diff over any number of files. Files that exist must have been read first.",
        Arguments,
        "write",
    )

    def resource(self, arguments: Mapping[str, object]) -> str:
        """The path; of a patch, its first. The others are judged as targets."""
        try:
            return next(iter(_plan(taken(Arguments, arguments)).ops))
        except Failed:
            return str(arguments.get("path") or "")

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        return await inspected(lambda: _plan(taken(Arguments, arguments)), context)

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(_edit, Arguments, arguments, context)


def _plan(arguments: Arguments) -> Plan:
    if arguments.patch is None and arguments.path and arguments.edits:
        return plan_of(arguments.path, arguments.edits)
    if arguments.patch is None or arguments.path or arguments.edits:
        raise Failed("Give either `path` with `edits`, or `patch` alone.")
    files = parse(arguments.patch)
    ops: dict[str, Op] = {}
    for file in files:
        for path in filter(None, (file.old, file.new)):
            if path in ops and file.old != file.new:
                raise Failed(f"{path} is in the patch twice.")
        if file.old and file.old != file.new:
            ops[file.old] = "rename" if file.new else "delete"
        if file.new:
            ops[file.new] = "write"
    return Plan(ops=ops, revise=lambda befores: applied(files, befores))


def _edit(arguments: Arguments, context: ToolContext) -> Result:
    return told(make_changes(_plan(arguments), context))
