"""Definitions and tools that tests of the runtime share."""

from retinue.schema.agent import AgentDefinition, ToolFilter
from retinue.schema.ids import AgentId
from retinue.schema.permission import Permissions
from retinue.tools.function import tool


def agent(id: str = "calc", *tools: str, **keys: object) -> AgentDefinition:
    """A definition with all its tools allowed; `keys` are fields of `AgentDefinition`."""
    fields: dict[str, object] = {
        "name": id,
        "description": f"The agent {id}.",
        "prompt": f"You are {id}.",
        "use_default_prefix": False,
        "tools": ToolFilter(only=(tools,)),
        "permissions": Permissions(default="allow"),
        **keys,
    }
    return AgentDefinition(id=AgentId(id), **fields)  # pyright: ignore[reportArgumentType] # checked by the struct


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
