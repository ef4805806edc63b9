"""Which paths of a workspace a sandboxed command may not change, whether or not they exist.

The rule itself is `retinue.policy.files.protected`; a mount can't be made for
every path that might come to be, so this names the places that other programs
act on. What exists is pinned read-only; what is absent gets something empty and
read-only mounted in its place. `.git` stays writable, for commits, but can't be
moved, and what makes git run programs is pinned in it. Links, on which nothing can
be mounted, and files that git would trip over, are looked at afterwards and put
back. A folder that holds a nested repository can be moved, with its pins.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from retinue.policy.files import Place, protected

EVERYWHERE = (
    *(".git", ".retinue", ".vscode", ".idea", ".mcp.json", ".envrc", "retinue.toml", ".claude/agents"),
    *(".claude/commands", ".claude/hooks", ".claude/settings.json", ".claude/settings.local.json"),
)
WHERE_PRESENT = (
    *(".opencode/agent", ".gemini/agents", ".cursor/agents", ".github/agents", ".ssh", ".config/git", ".gitconfig"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".gemini/settings.json"),
)
"""Absent ones matter in the home folder only: elsewhere nothing acts on them."""
_GIT_FOLDERS = ("hooks", "modules")
_GIT_FILES = ("config", "config.worktree", "commondir")
_MOST_ENTRIES = 5_000
_DEPTH = 3


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    fixed: tuple[str, ...] = ()
    """Mounted on themselves, writable, so that they can't be moved or removed."""
    read_only: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    """Absent, also where a file would be: an empty folder is what git and most programs pass over."""
    links: dict[str, str] = {}
    """To be the same afterwards."""
    absent: tuple[str, ...] = ()
    """To be absent afterwards."""


def pins(workspace: str, home: str, more: Iterable[str] = ()) -> Pins:
    """What to mount. An empty folder counts as absent: a command that was killed may have left it standing in.

    Args:
        workspace: Its real path.
        home: In which start files matter also when they are absent.
        more: Further paths that no agent changes; those outside the workspace are read-only anyway.
    """
    fixed: list[str] = []
    read_only: list[str] = []
    empty: list[str] = []
    links: dict[str, str] = {}
    inside = [path for path in more if path.startswith(f"{workspace}/")]
    for path in (*_wanted(workspace, home), *inside):
        if Path(path).is_symlink():
            links[path] = str(Path(path).readlink())
            continue
        if os.path.lexists(path) and not _is_empty_folder(path):
            (fixed if path.endswith("/.git") and Path(path).is_dir() else read_only).append(path)
            continue
        empty.append(_first_absent(path))
    gone: list[str] = []
    for git in fixed:
        for name in (*_GIT_FOLDERS, *_GIT_FILES):
            path = f"{git}/{name}"
            (read_only if os.path.lexists(path) else empty if name in _GIT_FOLDERS else gone).append(path)
    return Pins(
        fixed=_unique(fixed),
        read_only=_unique(read_only),
        empty=_unique(empty),
        links=links,
        absent=tuple(gone),
    )


def _wanted(workspace: str, home: str) -> Iterator[str]:
    for name in (*EVERYWHERE, *WHERE_PRESENT):
        path = f"{workspace}/{name}"
        if name in EVERYWHERE or workspace == home or os.path.lexists(path):
            yield path
    yield from _nested(workspace)


def _nested(workspace: str) -> Iterator[str]:
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
            if protected(entry.path, place):
                yield entry.path
            elif entry.is_dir(follow_symlinks=False) and depth < _DEPTH and entry.name != "node_modules":
                todo.append((entry.path, depth + 1))


def _is_empty_folder(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _first_absent(path: str) -> str:
    """The topmost part of `path` that is not there."""
    part = Path(path)
    while not part.parent.exists():
        part = part.parent
    return str(part)


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
