"""Which paths of a workspace a sandboxed command may not change, whether or not they exist.

The rule itself is `retinue.policy.files.protected`; a mount can't be made for
every path that might come to be, so this names the places that other programs
act on. What exists is pinned read-only; what is absent gets something empty and
read-only mounted in its place. `.git` stays writable, for commits, but can't be
moved, and what makes git run programs is pinned in it.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from retinue.policy.files import Place, protected

FOLDERS = (".git", ".retinue", ".vscode", ".idea", ".claude/agents", ".claude/commands", ".claude/hooks")
OTHER_FOLDERS = (".opencode/agent", ".gemini/agents", ".cursor/agents", ".github/agents", ".ssh", ".config/git")
"""Pinned where they or their parent exist: too many to stand in for in every workspace."""
FILES = (".mcp.json", ".envrc", "retinue.toml", ".claude/settings.json", ".claude/settings.local.json")
OTHER_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".gitconfig", ".gemini/settings.json")
_GIT_FOLDERS = ("hooks", "modules")
_GIT_FILES = ("config", "config.worktree", "commondir")
_MOST_ENTRIES = 5_000
_DEPTH = 3


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    fixed: tuple[str, ...] = ()
    """Mounted on themselves, writable, so that they can't be moved or removed."""
    read_only: tuple[str, ...] = ()
    empty_folders: tuple[str, ...] = ()
    empty_files: tuple[str, ...] = ()
    links: dict[str, str] = {}
    """Nothing can be mounted on a link, so these are compared and put back afterwards."""


def pins(workspace: str, home: str) -> Pins:
    fixed: list[str] = []
    read_only: list[str] = []
    folders: list[str] = []
    files: list[str] = []
    links: dict[str, str] = {}
    for path, is_folder in _wanted(workspace, home):
        if Path(path).is_symlink():
            links[path] = str(Path(path).readlink())
            continue
        if os.path.lexists(path):
            (fixed if path.endswith("/.git") and Path(path).is_dir() else read_only).append(path)
            continue
        absent, whole = _first_absent(path)
        (folders if is_folder or not whole else files).append(absent)
    for git in fixed:
        inner = [(f"{git}/{name}", True) for name in _GIT_FOLDERS] + [(f"{git}/{name}", False) for name in _GIT_FILES]
        for path, is_folder in inner:
            (read_only if os.path.lexists(path) else folders if is_folder else files).append(path)
    return Pins(
        fixed=_unique(fixed),
        read_only=_unique(read_only),
        empty_folders=_unique(folders),
        empty_files=_unique(files),
        links=links,
    )


def _wanted(workspace: str, home: str) -> Iterator[tuple[str, bool]]:
    always = workspace == home
    for name in (*FOLDERS, *OTHER_FOLDERS, *FILES, *OTHER_FILES):
        path = f"{workspace}/{name}"
        is_folder = name in FOLDERS or name in OTHER_FOLDERS
        if always or name in FOLDERS or name in FILES or os.path.lexists(path):
            yield path, is_folder
    yield from _nested(workspace)


def _nested(workspace: str) -> Iterator[tuple[str, bool]]:
    """Protected things that exist further down, as far as a short look finds them."""
    place = Place(workspace=workspace)
    left = _MOST_ENTRIES
    todo = [(workspace, 0)]
    while todo and left > 0:
        folder, depth = todo.pop(0)
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:
            continue
        left -= len(found)
        for entry in found:
            is_folder = entry.is_dir(follow_symlinks=False)
            if protected(entry.path, place):
                yield entry.path, is_folder
            elif is_folder and depth < _DEPTH and entry.name != "node_modules":
                todo.append((entry.path, depth + 1))


def _first_absent(path: str) -> tuple[str, bool]:
    """The topmost part of `path` that is not there, and whether it is all of it."""
    part = path
    while not Path(part).parent.exists():
        part = str(Path(part).parent)
    return part, part == path


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
