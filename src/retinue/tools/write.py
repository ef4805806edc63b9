"""write: creates a file or replaces all of it."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from retinue.tools.attempt import declare, taken
from retinue.tools.change import Plan
from retinue.tools.changing import ChangingTool


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Absolute, or relative to the workspace.")]
    content: Annotated[str, msgspec.Meta(description="The whole content of the file.")]


class Write(ChangingTool):
    spec = declare(
        "write",
        "Creates a file, with the folders it needs, or replaces the whole content of one. "
        "An existing file must have been read first; to change a part of it use `edit`.",
        Arguments,
        "idempotent",
    )

    def plan(self, arguments: Mapping[str, object]) -> Plan:
        wanted = taken(Arguments, arguments)
        return Plan(ops={wanted.path: "write"}, revise=lambda _: {wanted.path: wanted.content})
