"""A tool as its server lists it, and what was seen of it first.

Descriptions and schemas are text that a model acts on, and a server may change
them after somebody has approved it. So each tool's first form is remembered in a
file of the user's folder, and another one is held back until a person agrees.
"""

import fcntl
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from retinue.remotes.private import write_private
from retinue.schema.errors import SettingsError
from retinue.schema.tool import Effect

if TYPE_CHECKING:
    from mcp.types import Tool


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: Mapping[str, object]
    effect: Effect
    digest: str

    @property
    def bare(self) -> "Listed":
        """The same without its server's words: nothing in it can talk to a model."""
        said = "Its description changed since it was first seen here; a person is asked before it runs."
        return msgspec.structs.replace(self, description=said, parameters=_shape(self.parameters))


class _First(msgspec.Struct, frozen=True):
    digest: str
    description: str


def listed(tool: "Tool") -> Listed:
    hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations else {}
    effect: Effect = "write"
    if hints.get("read_only_hint"):
        effect = "read"
    elif hints.get("idempotent_hint"):
        effect = "idempotent"
    parameters = {**tool.input_schema, "type": "object"}
    said = msgspec.json.encode((tool.description, parameters, hints), order="sorted")
    return Listed(
        name=tool.name,
        description=tool.description or tool.title or tool.name,
        parameters=parameters,
        effect=effect,
        digest=sha256(said).hexdigest(),
    )


class Seen:
    """The first form of every server's tools. Several processes may share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def before(self, server: str, tools: Iterable[Listed]) -> dict[str, str]:
        """Note tools that are new; return the earlier description of each that is another one now."""
        tools = list(tools)
        known = self._read().get(server, {})
        if fresh := [tool for tool in tools if tool.name not in known]:
            known = self._note(server, fresh, over=False)
        return {t.name: known[t.name].description for t in tools if known[t.name].digest != t.digest}

    def accept(self, server: str, tool: Listed) -> None:
        self._note(server, [tool], over=True)

    def _note(self, server: str, tools: Iterable[Listed], *, over: bool) -> dict[str, _First]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            everything = self._read()
            known = everything.setdefault(server, {})
            for tool in tools:
                if over or tool.name not in known:
                    known[tool.name] = _First(tool.digest, tool.description)
            write_private(self._path, msgspec.json.encode(everything))
        return known

    def _read(self) -> dict[str, dict[str, _First]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, _First]])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise SettingsError(
                f"{self._path}, where MCP tools are remembered, can't be read: {error}",
                hint="remove it to have every tool count as new",
            ) from None


def _shape(schema: object) -> dict[str, object]:
    """A schema's names and types, none of its texts."""
    fields = _fields(schema)
    found = {key: fields[key] for key in ("type", "required") if key in fields}
    if "items" in fields:
        found["items"] = _shape(fields["items"])
    if "properties" in fields:
        found["properties"] = {name: _shape(part) for name, part in _fields(fields["properties"]).items()}
    return found


def _fields(value: object) -> dict[str, object]:
    try:
        return msgspec.convert(value, dict[str, object])
    except msgspec.ValidationError:
        return {}
