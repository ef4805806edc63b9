"""multi_edit: several edits of one file, or a unified diff over several files; all of it or nothing."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from retinue.ports.tool import Op
from retinue.tools.attempt import Failed, declare, taken
from retinue.tools.change import Plan
from retinue.tools.changing import ChangingTool
from retinue.tools.edit import plan_of
from retinue.tools.edits import Replacement
from retinue.tools.patch import applied, parse


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str | None, msgspec.Meta(description="The file that `edits` change.")] = None
    edits: Annotated[tuple[Replacement, ...], msgspec.Meta(description="Made in order.")] = ()
    patch: Annotated[
        str | None,
        msgspec.Meta(description="Instead of path and edits: a unified diff, also to create, remove or rename files."),
    ] = None


class MultiEdit(ChangingTool):
    spec = declare(
        "multi_edit",
        "Makes several changes at once, or none if one of them does not fit: either `path` and `edits`, "
        "or `patch`, a unified diff over any number of files. Files that exist must have been read first.",
        Arguments,
        "write",
    )

    def plan(self, arguments: Mapping[str, object]) -> Plan:
        wanted = taken(Arguments, arguments)
        if wanted.patch is None and wanted.path and wanted.edits:
            return plan_of(wanted.path, wanted.edits)
        if wanted.patch is None or wanted.path or wanted.edits:
            raise Failed("Give either `path` with `edits`, or `patch` alone.")
        files = parse(wanted.patch)
        ops: dict[str, Op] = {}
        for file in files:
            if twice := {file.old, file.new} & set(ops):
                raise Failed(f"{twice.pop()} is in the patch twice.")
            if file.old and file.old != file.new:
                ops[file.old] = "rename" if file.new else "delete"
            if file.new:
                ops[file.new] = "write"
        return Plan(ops=ops, revise=lambda befores: applied(files, befores))
