"""A tool as the model sees it and as recovery must know it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Effect = Literal["read", "idempotent", "write"]
"""read: changes nothing. idempotent: running it twice is running it once. write: anything else."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: Mapping[str, object]
    """A JSON Schema of type object."""
    effect: Effect = "write"
