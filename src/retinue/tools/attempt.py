"""The common frame of the shipped tools: typed arguments in, an outcome out.

A tool describes its arguments as a struct, from which the schema is made, and
does its work in a plain function that raises `Failed` for what can go wrong.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.schema.message import OutcomeStatus
from retinue.schema.tool import Effect, ToolSpec

A = TypeVar("A", bound=msgspec.Struct)


class Failed(Exception):
    """Ends a call with an outcome that the model reads."""

    def __init__(self, text: str, status: OutcomeStatus = "error") -> None:
        super().__init__(text)
        self.result = Result(text=text, status=status)


def declare(name: str, description: str, arguments: type[msgspec.Struct], effect: Effect) -> ToolSpec:
    _, components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    defs = dict(components)
    schema = defs.pop(arguments.__name__)
    schema.pop("title", None)
    schema.pop("description", None)
    return ToolSpec(
        name=name, description=description, parameters=schema | ({"$defs": defs} if defs else {}), effect=effect
    )


async def attempt(
    work: Callable[[A, ToolContext], Result], kind: type[A], arguments: Mapping[str, object], context: ToolContext
) -> Result:
    """Run blocking work in a thread; expected failures become outcomes."""
    try:
        return await asyncio.to_thread(work, taken(kind, arguments), context)
    except Failed as failed:
        return failed.result
    except OSError as error:
        return unreadable(error)


def unreadable(error: OSError) -> Result:
    """The system said no; of a descriptor's own path nothing is told."""
    path = "" if not error.filename or str(error.filename).startswith("/proc/self/fd/") else f": {error.filename}"
    return Result(status="error", text=f"{error.strerror or error}{path}")


def taken(kind: type[A], arguments: Mapping[str, object]) -> A:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise Failed(f"The arguments do not fit: {error}") from None
