"""Finds function tools: in a project's `.retinue/tools` and in installed packages.

Loading runs code, so a project's file is run only when a person trusted its content; until
then its syntax tree says what it would offer. What was read is what is judged, shown and
run: the file is opened once, and compiled code beside it is never used. A file that fails is
told as a problem and its neighbours still load. Who trusts what is kept by `retinue.app.trust`.
"""

import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import msgspec

from retinue.ports.tool import Tool
from retinue.schema.tool import ToolSpec

FOLDER = Path(".retinue") / "tools"
GROUP = "retinue.tools"
_log = logging.getLogger(__name__)


class ToolFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a project's folder of tools, as it was when it was read."""

    path: Path
    source: bytes
    hash: str
    trusted: bool


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a decorated function seems to offer, told without running it."""

    name: str
    effect: str
    description: str


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    tools: dict[str, Tool]
    problems: tuple[str, ...] = ()
    """`file: what happened`, fit for a person."""


_loaded: dict[tuple[Path, str], list[Tool] | Exception] = {}


def tool_files(folder: Path, trusted: Mapping[str, str]) -> Iterator[ToolFile]:
    """The files of a project's folder of tools; those whose names begin with `_` are none.

    Args:
        folder: The project's `.retinue/tools`.
        trusted: The hash that a person trusted, by file name.
    """
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith("_") or not path.is_file():
            continue
        source = path.read_bytes()
        digest = hashlib.sha256(source).hexdigest()
        yield ToolFile(path=path, source=source, hash=digest, trusted=trusted.get(path.name) == digest)


def outlines(file: ToolFile) -> list[Outline]:
    """What the functions decorated with `tool` say of themselves; nothing when the file is no Python."""
    try:
        tree = ast.parse(file.source)
    except (SyntaxError, ValueError):
        return []
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [found for function in functions for d in function.decorator_list if (found := _outline(function, d))]


def project_tools(files: Iterable[ToolFile]) -> Discovered:
    """The tools in the trusted ones of `files`; a file is run again only when it changed."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for file in (file for file in files if file.trusted):
        found = _loaded.get((file.path, file.hash))
        found = _load(file) if found is None else found
        if isinstance(found, Exception):
            problems.append(f"{file.path}: {type(found).__name__}: {found}")
            continue
        problems += [f"{file.path}: a tool named {t.spec.name!r} exists already" for t in found if t.spec.name in tools]
        tools = {t.spec.name: t for t in found} | tools
    return Discovered(tools=tools, problems=tuple(problems))


def packaged_tools() -> Discovered:
    """The tools that installed packages offer; an entry point names a tool or a module of tools."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        try:
            value: object = entry.load()
        except Exception as error:
            problems.append(f"entry point {entry.name} ({entry.value}): {type(error).__name__}: {error}")
            continue
        found = [value] if _is_tool(value) else _tools_in(value) if isinstance(value, ModuleType) else []
        if not found:
            problems.append(f"entry point {entry.name} ({entry.value}): neither a tool nor a module with tools")
        tools = {t.spec.name: t for t in found} | tools
    return Discovered(tools=tools, problems=tuple(problems))


class _Source(importlib.abc.SourceLoader):
    """Loads the bytes that were judged, whatever lies on the disk by now."""

    def __init__(self, file: ToolFile) -> None:
        self._file = file

    def get_filename(self, fullname: str) -> str:
        return str(self._file.path)

    def get_data(self, path: str | bytes) -> bytes:
        if str(path) != str(self._file.path):
            raise OSError("compiled code is not used")
        return self._file.source


def _load(file: ToolFile) -> list[Tool] | Exception:
    name = f"retinue_project_{hashlib.sha256(bytes(file.path)).hexdigest()[:12]}_{file.path.stem}"
    loader = _Source(file)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader, origin=str(file.path)))
    module.__file__ = str(file.path)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
        found: list[Tool] | Exception = _tools_in(module)
    except Exception as error:
        _log.warning("%s could not be loaded", file.path, exc_info=True)
        found = error
    _loaded[file.path, file.hash] = found
    return found


def _outline(function: ast.FunctionDef | ast.AsyncFunctionDef, decorator: ast.expr) -> Outline | None:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) != "tool":
        return None
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    said = {k.arg: str(k.value.value) for k in keywords if isinstance(k.value, ast.Constant)}
    return Outline(
        name=said.get("name", function.name),
        effect=said.get("effect", "write"),
        description=said.get("description") or (ast.get_docstring(function) or "").partition("\n")[0],
    )


def _tools_in(module: ModuleType) -> list[Tool]:
    values: Iterable[object] = vars(module).values()
    return list({id(v): v for v in values if _is_tool(v)}.values())


def _is_tool(value: object) -> TypeGuard[Tool]:
    """An instance with a spec, not a class that describes one."""
    return not isinstance(value, type) and isinstance(getattr(value, "spec", None), ToolSpec) and hasattr(value, "run")
