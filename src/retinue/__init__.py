"""Runs agents that are written as files.

What is public is in `__all__`; each name is imported when it is first used, so that
a command which needs little starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.app.load import load_agent as load_agent
    from retinue.app.load import load_catalog as load_catalog
    from retinue.app.retinue import Retinue as Retinue
    from retinue.app.sync import RetinueSync as RetinueSync
    from retinue.definition.code import define_agent as define_agent
    from retinue.registry.catalog import Catalog as Catalog
    from retinue.schema.agent import AgentDefinition as AgentDefinition
    from retinue.schema.errors import DefinitionError as DefinitionError
    from retinue.schema.errors import RetinueError as RetinueError
    from retinue.tools.function import tool as tool

_HOME = {
    "AgentDefinition": "retinue.schema.agent",
    "Catalog": "retinue.registry.catalog",
    "DefinitionError": "retinue.schema.errors",
    "Retinue": "retinue.app.retinue",
    "RetinueError": "retinue.schema.errors",
    "RetinueSync": "retinue.app.sync",
    "define_agent": "retinue.definition.code",
    "load_agent": "retinue.app.load",
    "load_catalog": "retinue.app.load",
    "tool": "retinue.tools.function",
}

__all__ = [
    "AgentDefinition",
    "Catalog",
    "DefinitionError",
    "Retinue",
    "RetinueError",
    "RetinueSync",
    "define_agent",
    "load_agent",
    "load_catalog",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'retinue' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
