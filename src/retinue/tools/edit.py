"""edit: replaces a piece of text in a file that was read."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from retinue.tools.attempt import Failed, declare, taken
from retinue.tools.change import Plan
from retinue.tools.changing import ChangingTool
from retinue.tools.edits import Replacement, replaced
from retinue.tools.text import Text


class Arguments(Replacement, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Absolute, or relative to the workspace.")]


class Edit(ChangingTool):
    spec = declare(
        "edit",
        "Replaces old_string by new_string in a file that you have read. old_string must be in the file exactly "
        "as given, white space included and line numbers left out, and once, unless replace_all is set.",
        Arguments,
        "write",
    )

    def plan(self, arguments: Mapping[str, object]) -> Plan:
        wanted = taken(Arguments, arguments)
        return plan_of(wanted.path, (wanted,))


def plan_of(path: str, edits: tuple[Replacement, ...]) -> Plan:
    def revise(befores: Mapping[str, Text | None]) -> dict[str, str | None]:
        before = befores[path]
        if before is None:
            raise Failed(f"{path} does not exist. To create it use `write`.")
        return {path: replaced(before.text, edits, path)}

    return Plan(ops={path: "write"}, revise=revise)
