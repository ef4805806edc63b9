"""glob: files by name pattern, newest first."""

from collections.abc import Mapping
from itertools import islice
from typing import Annotated

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.tools.attempt import Failed, attempt, declare
from retinue.tools.reading import ReadingTool
from retinue.tools.search import batches, folder, newest_first
from retinue.tools.walk import files_below, ripgrep


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="For example `src/**/*.py`; without a slash, at any depth.")]
    path: Annotated[str, msgspec.Meta(description="The folder to look in.")] = "."
    limit: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 100


class Glob(ReadingTool):
    spec = declare(
        "glob",
        "Finds files by name, the most recently changed first. Leaves out what .gitignore leaves out.",
        Arguments,
        "read",
    )

    def __init__(self, program: str | None = None, *, use_program: bool = True) -> None:
        self._program = (program or ripgrep()) if use_program else None

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("pattern", ""))

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(self._glob, Arguments, arguments, context)

    def _glob(self, arguments: Arguments, context: ToolContext) -> Result:
        with folder(arguments.path, context) as root:
            if root.target.kind != "folder":
                raise Failed(f"{arguments.path} is a file, not a folder.")
            names = files_below(root.held, arguments.pattern, program=self._program)
            hits = (hit.name for batch in batches(root, newest_first(root.held, names), context) for hit in batch)
            shown = list(islice(hits, arguments.limit + 1))
        if not shown:
            return Result(text=f"No file matches {arguments.pattern}.")
        more = (
            [f"[The first {arguments.limit}; there are more. Narrow the pattern.]"]
            if len(shown) > arguments.limit
            else []
        )
        return Result(text="\n".join([*shown[: arguments.limit], *more]))
