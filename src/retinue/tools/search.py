"""What glob, grep and list share: only files that may be seen appear, newest first.

A name from the walk is opened again beneath the folder that was judged, without
following any link, so a result is what was judged even while folders are swapped.
"""

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from retinue.ports.tool import Target, ToolContext
from retinue.sandbox.descriptors import Located, beneath
from retinue.sandbox.targets import other_names
from retinue.schema.errors import Denied
from retinue.tools.attempt import Failed
from retinue.tools.paths import Found, admit, found, visible

BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    name: str
    """As it is shown: relative to the workspace when it is inside, else absolute."""
    held: Located


@contextmanager
def folder(path: str, context: ToolContext) -> Generator[Found]:
    """The place to search in, admitted."""
    with found(path or ".", "read", context) as place:
        admit(place.target, context)
        if place.target.kind == "absent":
            raise Failed(f"{path} does not exist.")
        yield place


def newest_first(root: Located, names: Sequence[str]) -> list[str]:
    def changed(name: str) -> float:
        try:
            return os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    return sorted(names, key=changed, reverse=True)


def batches(root: Found, names: Sequence[str], context: ToolContext) -> Iterator[list[Hit]]:
    """The files of `names` that may be seen, some at a time; their descriptors hold until the next batch."""
    for start in range(0, len(names), BATCH):
        held = [place for name in names[start : start + BATCH] if (place := beneath(root.held, name))]
        try:
            yield _seen(root, held, context)
        finally:
            for place in held:
                os.close(place.fd)


def shown_name(path: str, context: ToolContext) -> str:
    workspace = os.path.realpath(context.workspace)
    return printable(path[len(workspace) + 1 :] if path.startswith(f"{workspace}/") else path)


def printable(name: str) -> str:
    """A name on one line; file systems allow anything."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def _names(linked: dict[tuple[int, int], str], context: ToolContext) -> dict[str, tuple[str, ...]]:
    try:
        return other_names(linked, context.workspace)
    except Denied as denied:
        raise Failed(f"Denied: {denied}.", "denied") from None


def _seen(root: Found, held: Sequence[Located], context: ToolContext) -> list[Hit]:
    states = [os.fstat(place.fd) for place in held]
    linked = {
        (state.st_dev, state.st_ino): place.path
        for place, state in zip(held, states, strict=True)
        if state.st_nlink > 1 and stat.S_ISREG(state.st_mode)
    }
    names = _names(linked, context) if linked else {}
    hits: list[Hit] = []
    for place, state in zip(held, states, strict=True):
        target = Target(
            op="read",
            asked=place.path,
            path=place.path,
            names=names.get(place.path, ()),
            more_names=state.st_nlink > len(names.get(place.path, ())) + 1,
            identity=f"{state.st_dev}:{state.st_ino}",
        )
        if stat.S_ISREG(state.st_mode) and visible(target, context, root=root.target):
            hits.append(Hit(name=shown_name(place.path, context), held=place))
    return hits
