"""diagnostics: what the project's own checkers say of a file.

Commands that the operator configured come first; else the checkers below, where
they are installed. A checker that runs code of the project is used only inside
the sandbox, because this tool is allowed where bash is not.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.tools.attempt import Failed, declare, taken
from retinue.tools.commands import run_command, sandboxed
from retinue.tools.paths import admit, found
from retinue.tools.reading import ReadingTool
from retinue.tools.settings import ToolSettings

_SECONDS = 120.0
_MOST = 100
_PLACE = re.compile(
    r"\s*(?:vet: )?(?P<file>[^\s:(][^:(]*)[:(](?P<line>\d+)(?:[:,](?P<column>\d+))?\)?(?::| -)\s*(?P<text>\S.*)"
)


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="The file to check.")]


class Checker(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    files: tuple[str, ...]
    command: tuple[str, ...]
    """`{file}` is the file; without it the whole project is checked and the file's part is shown."""
    beside: tuple[str, ...] = ()
    """Files of which one must stand in the file's folder or above; the checker runs there."""
    runs_project: bool = False


def _checker(name: str, files: str, command: str, beside: str = "", *, runs_project: bool = False) -> Checker:
    return Checker(
        name=name,
        files=tuple(files.split()),
        command=tuple(command.split()),
        beside=tuple(beside.split()),
        runs_project=runs_project,
    )


_ESLINT = "eslint.config.js eslint.config.mjs eslint.config.ts .eslintrc.json .eslintrc.js .eslintrc"
CHECKERS = (
    _checker("ruff", "*.py *.pyi", "ruff check --output-format=concise --no-fix {file}"),
    _checker("pyright", "*.py *.pyi", "pyright {file}"),
    _checker("tsc", "*.ts *.tsx", "tsc --noEmit --pretty false", "tsconfig.json"),
    _checker("eslint", "*.js *.jsx *.mjs *.cjs *.ts *.tsx", "eslint --format json {file}", _ESLINT, runs_project=True),
    _checker("go", "*.go", "go vet ./...", "go.mod"),
    _checker("cargo", "*.rs", "cargo check --quiet --offline --message-format short", "Cargo.toml", runs_project=True),
)


class Diagnostics(ReadingTool):
    spec = declare("diagnostics", "Reports what the project's checkers say of a file.", Arguments, "read")

    def __init__(self, settings: ToolSettings) -> None:
        self._settings = settings

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        try:
            with found(taken(Arguments, arguments).path, "read", context) as place:
                admit(place.target, context)
                if place.target.kind != "file":
                    raise Failed(f"{place.target.path} is not a file.")
                path = Path(place.target.path)
            boxed = sandboxed(context)
            chosen = self._chosen(path, Path(os.path.realpath(context.workspace)), boxed=boxed)
            reports = await asyncio.gather(*(self._check(*one, path, context) for one in chosen))
        except Failed as failed:
            return failed.result
        if not reports:
            return Result(text=f"No checker for {path.name} is configured or installed here.")
        return _told(path, [name for name, _, _ in chosen], reports)

    def _chosen(self, path: Path, workspace: Path, *, boxed: bool) -> list[tuple[str, list[str], Path]]:
        """Name, command and folder of each checker for the file."""
        own = [c for pattern, c in self._settings.checkers.items() if fnmatch(path.name, pattern)]
        if own:
            return [(c[0], [part.replace("{file}", str(path)) for part in c], workspace) for c in own if c]
        chosen: list[tuple[str, list[str], Path]] = []
        for checker in CHECKERS:
            folder = _beside(path, workspace, checker.beside)
            if (
                not any(fnmatch(path.name, p) for p in checker.files)
                or not folder
                or (checker.runs_project and not boxed)
            ):
                continue
            program = _program(checker.command[0], folder, workspace if boxed else None)
            if program:
                rest = [part.replace("{file}", str(path)) for part in checker.command[1:]]
                chosen.append((checker.name, [program, *rest], folder))
        return chosen

    async def _check(self, name: str, command: list[str], folder: Path, path: Path, context: ToolContext) -> list[str]:
        output = bytearray()
        ran = await run_command(
            command, context, self._settings, folder=str(folder), seconds=_SECONDS, output=output.extend
        )
        text = output[:2_000_000].decode(errors="replace")
        if ran.finished.ended:
            return [f"{name}: stopped ({ran.finished.ended})"]
        problems = _eslint(text) if name == "eslint" else _placed(text, folder, path)
        if not problems and ran.finished.code not in (0, 1):
            return [f"{name} failed with status {ran.finished.code}: {text.strip()[-500:]}"]
        return [f"{problem} [{name}]" for problem in problems]


def _told(path: Path, names: list[str], reports: list[list[str]]) -> Result:
    lines = [line for report in reports for line in report]
    used = ", ".join(names)
    if not lines:
        return Result(text=f"No problems in {path.name} ({used}).", metadata={"checkers": names, "count": 0})
    shown = [*lines[:_MOST], *([f"[{len(lines) - _MOST} more]"] if len(lines) > _MOST else [])]
    return Result(text="\n".join(shown), metadata={"checkers": names, "count": len(lines)})


def _beside(path: Path, workspace: Path, names: tuple[str, ...]) -> Path | None:
    if not names:
        return workspace if path.is_relative_to(workspace) else path.parent
    above = [folder for folder in path.parents if folder.is_relative_to(workspace)]
    return next((folder for folder in above if any((folder / name).exists() for name in names)), None)


def _program(name: str, folder: Path, workspace: Path | None) -> str | None:
    """The project's own copy where its programs may be run, else the system's."""
    if workspace is not None:
        for place in (folder, *folder.parents):
            for inside in ("node_modules/.bin", ".venv/bin", "venv/bin"):
                if place.is_relative_to(workspace) and os.access(place / inside / name, os.X_OK):
                    return str(place / inside / name)
    return shutil.which(name)


def _placed(text: str, folder: Path, path: Path) -> list[str]:
    """Lines of the form `file:line:column: text` that are about the file."""
    problems: list[str] = []
    for line in text.splitlines():
        place = _PLACE.match(line)
        if place and os.path.realpath(folder / place["file"].strip()) == str(path):
            where = ":".join(filter(None, (place["line"], place["column"])))
            problems.append(f"{path.name}:{where} {place['text']}")
    return problems


class _Message(msgspec.Struct):
    message: str
    line: int = 0
    column: int = 0
    ruleId: str | None = None
    severity: int = 1


class _Linted(msgspec.Struct):
    filePath: str
    messages: list[_Message]


def _eslint(text: str) -> list[str]:
    try:
        linted = msgspec.json.decode(text, type=list[_Linted])
    except msgspec.DecodeError:
        return []
    kinds = {1: "warning", 2: "error"}
    return [
        f"{Path(file.filePath).name}:{m.line}:{m.column} {kinds.get(m.severity, '')}: {m.message} ({m.ruleId})"
        for file in linted
        for m in file.messages
    ]
