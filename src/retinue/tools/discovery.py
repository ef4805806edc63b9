"""Finds function tools: in a trusted project's `.retinue/tools` and in installed packages.

Loading runs code, so the caller says that the folder is trusted. A file that
fails is told as a problem and its neighbours still load.
"""

import hashlib
import importlib.util
import logging
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import msgspec

from retinue.ports.tool import Tool

FOLDER = Path(".retinue") / "tools"
GROUP = "retinue.tools"
_log = logging.getLogger(__name__)


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    tools: dict[str, Tool]
    problems: tuple[str, ...] = ()
    """`file: what happened`, fit for a person."""


_loaded: dict[Path, tuple[tuple[int, int], ModuleType]] = {}


def project_tools(workspace: Path) -> Discovered:
    """The tools in the project's files; a file is run again only when it changed."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for path in sorted((workspace / FOLDER).glob("*.py")):
        if path.name.startswith("_"):
            continue
        try:
            found = _tools_in(_module(path))
        except Exception as error:
            _log.warning("%s could not be loaded", path, exc_info=True)
            problems.append(f"{path}: {type(error).__name__}: {error}")
            continue
        problems += [f"{path}: a tool named {t.spec.name!r} exists already" for t in found if t.spec.name in tools]
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


def _module(path: Path) -> ModuleType:
    state = path.stat()
    stamp = (state.st_mtime_ns, state.st_size)
    known = _loaded.get(path)
    if known and known[0] == stamp:
        return known[1]
    name = f"retinue_project_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    _loaded[path] = (stamp, module)
    return module


def _tools_in(module: ModuleType) -> list[Tool]:
    values: Iterable[object] = vars(module).values()
    return list({id(v): v for v in values if _is_tool(v)}.values())


def _is_tool(value: object) -> TypeGuard[Tool]:
    """An instance with a spec, not a class that describes one."""
    from retinue.schema.tool import ToolSpec

    return not isinstance(value, type) and isinstance(getattr(value, "spec", None), ToolSpec) and hasattr(value, "run")
