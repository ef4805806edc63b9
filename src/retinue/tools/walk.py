"""Lists the files below a folder that is held open, leaving out `.git` and what .gitignore leaves out.

With `rg` when it is installed, else in Python; both give the same files. What
comes out are names: `retinue.tools.search` opens and judges what is shown.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import msgspec

from retinue.sandbox.descriptors import Located
from retinue.tools.attempt import Failed
from retinue.tools.wildcard import wildcard

_SECONDS = 60.0
_FLAGS = ("--no-config", "--hidden", "--no-require-git", "--no-messages", "--null", "--glob=!.git")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Relative to the folder that is walked."""
    is_folder: bool
    is_file: bool
    """A regular one; neither a link nor a pipe."""
    link: str | None = None


@cache
def ripgrep() -> str | None:
    """The rg program, of the system or of this Python's environment."""
    return shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def files_below(root: Located, only: str | None = None, *, program: str | None) -> list[str]:
    """Names of files relative to `root`, in no order: all, or those that match the wildcard `only`.

    `program` is rg, or None for Python.
    """
    if program is None:
        names = [entry.name for entry in walk(root) if entry.is_file]
        return _matching(names, only)
    return _matching(_names_from([program, *_FLAGS, *_last_name(only), "--files", "."], root), only)


def files_with(root: Located, pattern: list[str], only: str | None = None, *, program: str) -> list[str]:
    """The same for files in which rg finds the pattern, which is given as its options."""
    command = [program, *_FLAGS, *_last_name(only), "--files-with-matches", *pattern, "."]
    return _matching(_names_from(command, root), only)


def _last_name(only: str | None) -> list[str]:
    """Options that let rg leave out most of what does not match: its file types look at the last name."""
    last = (only or "").rpartition("/")[2]
    if not last or last == "**" or set(last) & set(":{}\\[]") or set(only or "") & set("{}"):
        return []
    return [f"--type-add=wanted:{last}", "--type=wanted"]


def _matching(names: list[str], only: str | None) -> list[str]:
    if only is None:
        return names
    test = wildcard(only).fullmatch
    return [name for name in names if test(name)]


def _names_from(command: list[str], root: Located) -> list[str]:
    done = run(command, folder=f"/proc/self/fd/{root.fd}" if hasattr(os, "O_PATH") else root.path)
    return [name[2:] for name in done.decode(errors="replace").split("\0") if name]


def run(command: list[str], *, folder: str, descriptors: tuple[int, ...] = ()) -> bytes:
    """What rg says; its complaint about the pattern is a failure of the call."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            pass_fds=descriptors,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"The search took longer than {_SECONDS:g} s. Search a smaller folder.", "timed_out") from None
    if done.returncode == 2 and b"regex" in done.stderr:
        raise Failed(f"The pattern can't be used: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def walk(root: Located, depth: int = 100) -> Generator[Entry]:
    """Folders and files, each folder before what is in it, names in order; links are named, not followed."""
    fd = os.open(".", _FOLDER & ~os.O_NOFOLLOW, dir_fd=root.fd)
    rules = [rule for folder in _above(root.path) for rule in _rules(folder, None)]
    yield from _walk(fd, "", root.path.rstrip("/"), rules, depth)


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
    base: str
    """The absolute folder of the .gitignore."""
    pattern: re.Pattern[str]
    keep: bool
    folders_only: bool


def _walk(fd: int, prefix: str, path: str, rules: list[_Rule], depth: int) -> Generator[Entry]:
    try:
        rules = [*rules, *_rules(path, fd)]
        with os.scandir(fd) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or _ignored(f"{path}/{entry.name}", rules, is_folder=is_folder):
                continue
            link = os.readlink(entry.name, dir_fd=fd) if entry.is_symlink() else None
            is_file = entry.is_file(follow_symlinks=False)
            yield Entry(name=prefix + entry.name, is_folder=is_folder, is_file=is_file, link=link)
            if is_folder and depth > 1:
                try:
                    inner = os.open(entry.name, _FOLDER, dir_fd=fd)
                except OSError:
                    continue
                yield from _walk(inner, f"{prefix}{entry.name}/", f"{path}/{entry.name}", rules, depth - 1)
    finally:
        os.close(fd)


def _above(path: str) -> Iterator[str]:
    """Folders above `path` up to the root of its repository, outermost first; none outside a repository."""
    above = list(Path(path).parents)
    top = next((i for i, folder in enumerate([Path(path), *above]) if (folder / ".git").exists()), 0)
    yield from (str(folder) for folder in reversed(above[:top]))


def _rules(path: str, fd: int | None) -> list[_Rule]:
    lines: list[str] = []
    for name in (".gitignore", ".ignore"):
        try:
            opened = os.open(name if fd is not None else f"{path}/{name}", os.O_RDONLY | os.O_NONBLOCK, dir_fd=fd)
        except OSError:
            continue
        with os.fdopen(opened, encoding="utf-8", errors="replace") as file:
            lines += file.read(1_000_000).splitlines()
    found = (_rule(line, path) for line in lines)
    return [rule for rule in found if rule]


def _rule(line: str, base: str) -> _Rule | None:
    text = line if line.endswith("\\ ") else line.rstrip()
    if not text or text.startswith("#"):
        return None
    keep = text.startswith("!")
    text = text.removeprefix("!")
    return _Rule(base=base, pattern=wildcard(text.rstrip("/")), keep=keep, folders_only=text.endswith("/"))


def _ignored(path: str, rules: list[_Rule], *, is_folder: bool) -> bool:
    """The last rule that matches decides, as git has it."""
    for rule in reversed(rules):
        inside = path.startswith(f"{rule.base}/") and (is_folder or not rule.folders_only)
        if inside and rule.pattern.fullmatch(path[len(rule.base) + 1 :]):
            return not rule.keep
    return False
