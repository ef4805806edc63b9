"""What a path leads to, as the `Target` that rules are asked about."""

import os
import stat
from glob import iglob
from itertools import islice

from retinue.ports.tool import Op, Target
from retinue.sandbox.descriptors import Located, locate
from retinue.schema.errors import Denied

_MOST_ENTRIES = 500_000
"""Names looked at to find the other names of a hard-linked file."""
_MOST_MATCHES = 20_000


def resolve(op: Op, path: str, workspace: str) -> Target:
    """What the absolute `path` leads to now; what can't be reached is judged by its spelling."""
    try:
        held = locate(path, workspace.rstrip("/"))
    except OSError:
        return Target(op=op, asked=path, path=os.path.normpath(path), kind="absent")
    try:
        return target_of(op, path, held, workspace)
    except Denied:
        return Target(op=op, asked=path, path=held.full, more_names=True)
    finally:
        os.close(held.fd)


def notable_matches(pattern: str) -> list[str]:
    """The names that a shell pattern matches now and that are links or look like options; it speaks for the others."""
    found = islice(iglob(pattern), _MOST_MATCHES)  # noqa: PTH207 - the shell's own notation, with names as it gives them
    return [path for path in found if os.path.realpath(path) != path or "/-" in path]


def target_of(op: Op, asked: str, held: Located, workspace: str) -> Target:
    """Describe what a descriptor holds.

    Raises:
        Denied: it has other names, and there are too many files to find them among.
    """
    state = os.fstat(held.fd)
    names: tuple[str, ...] = ()
    if held.missing:
        kind = "absent"
    elif stat.S_ISREG(state.st_mode):
        kind = "file"
        if state.st_nlink > 1:
            names = other_names({(state.st_dev, state.st_ino): held.path}, workspace)[held.path]
    else:
        kind = "folder" if stat.S_ISDIR(state.st_mode) else "other"
    return Target(
        op=op,
        asked=asked,
        path=held.full,
        kind=kind,
        names=names,
        more_names=kind == "file" and state.st_nlink > len(names) + 1,
        identity=f"{state.st_dev}:{state.st_ino}",
    )


def other_names(wanted: dict[tuple[int, int], str], workspace: str) -> dict[str, tuple[str, ...]]:
    """For files of the given device and inode, their further names in the workspace."""
    names: dict[str, list[str]] = {path: [] for path in wanted.values()}
    inodes = {inode for _, inode in wanted}
    left = _MOST_ENTRIES
    folders = [os.path.realpath(workspace)]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.inode() in inodes:
                    state = entry.stat(follow_symlinks=False)
                    path = wanted.get((state.st_dev, state.st_ino))
                    if path and path != entry.path:
                        names[path].append(entry.path)
        if left < 0:
            raise Denied("a file here has several names, and the workspace is too large to find them all")
    return {path: tuple(sorted(others)) for path, others in names.items()}
