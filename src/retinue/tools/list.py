"""list: a folder as a tree."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from retinue.ports.tool import Result, Target, ToolContext
from retinue.tools.attempt import Failed, attempt, declare
from retinue.tools.paths import visible
from retinue.tools.reading import ReadingTool
from retinue.tools.search import folder, printable
from retinue.tools.walk import walk


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="The folder.")] = "."
    depth: Annotated[int, msgspec.Meta(ge=1, le=20, description="How many levels to show.")] = 2
    limit: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 400


class List(ReadingTool):
    spec = declare("list", "Shows a folder as a tree. Leaves out what .gitignore leaves out.", Arguments, "read")

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(_list, Arguments, arguments, context)


def _list(arguments: Arguments, context: ToolContext) -> Result:
    lines: list[str] = []
    with folder(arguments.path, context) as root:
        if root.target.kind != "folder":
            raise Failed(f"{arguments.path} is a file; use `read`.")
        base = root.target.path.rstrip("/")
        for entry in walk(root.held, arguments.depth):
            path = f"{base}/{entry.name}"
            target = Target(op="read", asked=path, path=path, kind="folder" if entry.is_folder else "file")
            if not visible(target, context, root=root.target):
                continue
            if len(lines) == arguments.limit:
                lines.append(f"[The first {arguments.limit}; there are more.]")
                break
            parent, _, name = entry.name.rpartition("/")
            indent = "  " * (parent.count("/") + 1 if parent else 0)
            link = f" -> {printable(entry.link)}" if entry.link is not None else ""
            lines.append(f"{indent}{printable(name)}{'/' if entry.is_folder else ''}{link}")
    return Result(text=f"{base}/\n" + ("\n".join(lines) or "[empty]"))
