"""edit: replaces a piece of text in a file that was read."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from retinue.ports.tool import Inspection, Result, ToolContext
from retinue.tools.attempt import Failed, attempt, declare, taken
from retinue.tools.change import Plan, make_changes
from retinue.tools.edits import Replacement, replaced
from retinue.tools.text import Text
from retinue.tools.write import inspected, told


class Arguments(Replacement, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Absolute, or relative to the workspace.")]


class Edit:
    spec = declare(
        "edit",
        "Replaces old_string by new_string in a file that you have read. old_string must be in the file exactly "
        "as given, white space included and line numbers left out, and once, unless replace_all is set.",
        Arguments,
        "write",
    )

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("path", ""))

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        return await inspected(lambda: _plan(taken(Arguments, arguments)), context)

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(_edit, Arguments, arguments, context)


def plan_of(path: str, edits: tuple[Replacement, ...]) -> Plan:
    def revise(befores: Mapping[str, Text | None]) -> dict[str, str | None]:
        before = befores[path]
        if before is None:
            raise Failed(f"{path} does not exist. To create it use `write`.")
        return {path: replaced(before.text, edits, path)}

    return Plan(ops={path: "write"}, revise=revise)


def _plan(arguments: Arguments) -> Plan:
    return plan_of(arguments.path, (arguments,))


def _edit(arguments: Arguments, context: ToolContext) -> Result:
    return told(make_changes(_plan(arguments), context))
