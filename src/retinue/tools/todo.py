"""todo: the thread's own list of what is to do, kept among its files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.tools.attempt import Failed, attempt, declare

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: Annotated[str, msgspec.Meta(min_length=1)]
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    todos: Annotated[
        tuple[Item, ...] | None,
        msgspec.Meta(description="The whole list, which replaces the old one. Leave out to read."),
    ] = None


class Todo:
    spec = declare(
        "todo",
        "Keeps the list of what is to do in this thread. Use it for work of several steps: write the list, keep one "
        "item in_progress, and mark items completed as soon as they are.",
        Arguments,
        "idempotent",
    )

    def resource(self, arguments: Mapping[str, object]) -> str:
        return "" if arguments.get("todos") is None else "write"

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        return await attempt(_todo, Arguments, arguments, context)


def _todo(arguments: Arguments, context: ToolContext) -> Result:
    path = Path(context.files) / "todo.json"
    if arguments.todos is not None:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(arguments.todos))
        fresh.replace(path)
    try:
        items = msgspec.json.decode(path.read_bytes(), type=tuple[Item, ...]) if path.exists() else ()
    except msgspec.DecodeError as error:
        raise Failed(f"The list can't be read ({error}). Write it anew.") from None
    text = "\n".join(f"{_MARKS[item.status]} {item.content}" for item in items)
    return Result(text=text or "[nothing to do]", metadata={"todos": msgspec.to_builtins(items)})
