"""`retinue tools`: the tools there are, those an agent gets, and trust in those of a project."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retinue.app.settings import Settings
from retinue.app.trust import distrust
from retinue.app.trust import trust as remember
from retinue.cli.here import settings_here
from retinue.cli.opening import opened
from retinue.cli.output import count, json_option, note, print_json, table
from retinue.schema.errors import NotFound, UsageError

if TYPE_CHECKING:
    from retinue.tools.discovery import ToolFile


@click.group(no_args_is_help=True)
def tools() -> None:
    """The tools there are, those an agent gets, and trust in those of a project."""


@tools.command("list")
@click.option("--agent", help="Only those that this agent gets, with delegation and completion.")
@json_option
def list_tools(*, agent: str | None, as_json: bool) -> None:
    """List tools: what each does, whether it changes anything, and those of this project that nobody trusted."""
    from retinue.tools.discovery import outlines, project_tools

    settings = settings_here()
    files = _files(settings)
    found = asyncio.run(_list(settings, agent))
    untrusted = [file for file in files if not file.trusted]
    found += [
        {"name": o.name, "effect": o.effect, "state": "untrusted", "description": o.description}
        for file in (untrusted if agent is None else ())
        for o in outlines(file)
    ]
    for problem in project_tools(files).problems:
        note(problem)
    if as_json:
        print_json(found)
    else:
        table(("TOOL", "EFFECT", "STATE", "DESCRIPTION"), (tuple(row.values()) for row in found))
    if untrusted:
        files_of = count(len(untrusted), "file")
        note(f"{files_of} of this project untrusted and not loaded: read, then retinue tools trust")


@tools.command
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Do not ask: the files were read before.")
@json_option
def trust(*, files: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Show what this project's .retinue/tools, or only FILE, would load, and trust it.

    Trusted files run inside Retinue, with your rights and outside the sandbox. What is trusted is the
    content: a file that changes is untrusted again.
    """
    settings = settings_here()
    chosen = _chosen(settings, files)
    if not as_json:
        _show(chosen)
    if chosen and not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError("nobody can be asked here", hint="read the files, then add --yes")
        click.confirm("Trust them? They run with your rights, outside the sandbox", abort=True, err=True)
    for file in chosen:
        remember(settings.home, file.path.parent, {file.path.name: file.hash})
    _told(chosen, trusted=True, as_json=as_json)


@tools.command
@click.argument("files", metavar="[FILE]...", nargs=-1)
@json_option
def untrust(*, files: tuple[str, ...], as_json: bool) -> None:
    """Take back the trust in this project's tools, or only in FILE."""
    settings = settings_here()
    chosen = _chosen(settings, files)
    for file in chosen:
        distrust(settings.home, file.path.parent, [file.path.name])
    _told(chosen, trusted=False, as_json=as_json)


async def _list(settings: Settings, agent: str | None) -> list[dict[str, str]]:
    from retinue.app.tools import tools_of

    async with opened(settings, drive=False) as app:
        return [
            {"name": s.name, "effect": s.effect, "state": "", "description": s.description.strip().partition("\n")[0]}
            for s in await tools_of(app, agent)
        ]


def _files(settings: Settings) -> "Sequence[ToolFile]":
    from retinue.app.project_tools import project_tool_files

    return project_tool_files(settings.home, settings.root)


def _chosen(settings: Settings, names: Sequence[str]) -> "Sequence[ToolFile]":
    """Those that `names` are paths or names of; all without any."""
    found = _files(settings)
    if not found:
        note("this project has no tools: no file in .retinue/tools")
    for name in names:
        if not any(_is(file, name) for file in found):
            raise NotFound(f"{name} is no file with tools of this project", hint="they are .retinue/tools/*.py")
    return [file for file in found if not names or any(_is(file, name) for name in names)]


def _is(file: "ToolFile", name: str) -> bool:
    return name in (file.path.name, file.path.stem) or Path(name).absolute() == file.path


def _names(file: "ToolFile") -> list[str]:
    from retinue.tools.discovery import outlines

    return [outline.name for outline in outlines(file)]


def _show(files: "Sequence[ToolFile]") -> None:
    if files:
        rows = ((str(f.path), ", ".join(_names(f)) or "none found", f.hash[:12]) for f in files)
        table(("FILE", "TOOLS", "HASH"), rows)


def _told(files: "Sequence[ToolFile]", *, trusted: bool, as_json: bool) -> None:
    if as_json:
        print_json([{"file": str(f.path), "tools": _names(f), "hash": f.hash, "trusted": trusted} for f in files])
    elif files:
        note(f"{'trusted' if trusted else 'no longer trusted'}: {count(len(files), 'file')}")
