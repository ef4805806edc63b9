"""Changes files: looks, shows what would change, and makes all changes of a call or none.

`write`, `edit` and `multi_edit` say what they want as a `Plan`; here the files are
found, judged, compared with what the thread has read, and replaced atomically
through the descriptors that were judged.
"""

import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import msgspec

from retinue.ports.tool import Inspection, Op, Target, ToolContext
from retinue.sandbox.descriptors import folder_of
from retinue.tools.attempt import Failed
from retinue.tools.paths import Found, admit, found
from retinue.tools.reads import digest, remember, remembered
from retinue.tools.text import Text, decode, diff, encode

MOST = 20_000_000
"""Bytes of a file that is changed as a whole in memory."""

Befores = Mapping[str, Text | None]
Afters = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    ops: Mapping[str, Op]
    """Each path as the model spelled it, and what is done to it."""
    revise: Callable[[Befores], Afters]
    """From what is there to what shall be there; None is nothing. Raises `Failed` when it can't be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    found: Found
    before: bytes | None
    after: bytes | None
    diff: str


def inspect_changes(plan: Plan, context: ToolContext) -> Inspection:
    """What would be touched and the diff; a plan that can't work tells its failure."""
    targets: list[Target] = []
    try:
        with ExitStack() as held:
            changes = _prepared(plan, context, held, seen=targets.append)
            preview = "".join(change.diff for change in changes)
    except Failed as failed:
        return Inspection(targets=tuple(targets), failure=failed.result)
    return Inspection(targets=tuple(targets), preview=preview)


def make_changes(plan: Plan, context: ToolContext) -> list[Change]:
    """Make every change or none."""
    with ExitStack() as held:
        changes = _prepared(plan, context, held, seen=lambda target: admit(target, context))
        _commit(changes)
    for change in changes:
        remember(context, change.found.target.path, digest(change.after or b""))
    return changes


def _prepared(plan: Plan, context: ToolContext, held: ExitStack, *, seen: Callable[[Target], None]) -> list[Change]:
    files: dict[str, tuple[Found, bytes | None]] = {}
    for path, op in plan.ops.items():
        files[path] = _current(held.enter_context(found(path, op, context)))
        seen(files[path][0].target)
    if len({(f.target.path) for f, _ in files.values()}) < len(files):
        raise Failed("Two of the paths are the same file; change it with one set of edits.")
    befores: dict[str, Text | None] = {}
    for path, (place, data) in files.items():
        befores[path] = None if data is None else _decoded(path, data)
        if data is not None and remembered(context, place.target.path) != digest(data):
            _refuse_unseen(path, place, data, plan, befores, context)
    afters = plan.revise(befores)
    return [_change(path, place, data, befores[path], afters[path]) for path, (place, data) in files.items()]


def _current(place: Found) -> tuple[Found, bytes | None]:
    if place.target.kind == "folder":
        raise Failed(f"{place.target.path} is a folder.")
    if place.target.kind == "absent":
        return place, None
    data = place.read(MOST)
    target = msgspec.structs.replace(place.target, content=digest(data))
    return Found(target=target, held=place.held, state=place.state), data


def _decoded(path: str, data: bytes) -> Text:
    text = decode(data)
    if text is None:
        raise Failed(f"{path} is binary; it can't be changed as text.")
    return text


def _refuse_unseen(path: str, place: Found, data: bytes, plan: Plan, befores: Befores, context: ToolContext) -> None:
    """Repeating a change that is already made is no harm: recovery may run a call twice."""
    if remembered(context, place.target.path) is None:
        if set(plan.ops) == {path} and _is_done(plan, befores, path):
            return
        raise Failed(f"{path} exists and this thread has not read it. Read it first, then change it.")
    raise Failed(f"{path} changed since this thread read it ({len(data):,} bytes now). Read it again, then change it.")


def _is_done(plan: Plan, befores: Befores, path: str) -> bool:
    before = befores[path]
    with suppress(Failed):
        return before is not None and plan.revise({path: None}).get(path) == before.text
    return False


def _change(path: str, place: Found, data: bytes | None, before: Text | None, after: str | None) -> Change:
    form = before or Text(text="")
    try:
        bytes_after = None if after is None else encode(after, form)
    except UnicodeEncodeError as error:
        raise Failed(f"{path} is {form.encoding}, which can't hold {error.object[error.start]!r}.") from None
    shown = diff(form.text, after or "", path, created=before is None, removed=after is None)
    return Change(found=place, before=data, after=bytes_after, diff=shown)


def _commit(changes: Sequence[Change]) -> None:
    """Write everything beside its place, then swap all names; on a failure swap back."""
    staged: list[_Staged] = []
    swapped: list[_Staged] = []
    try:
        staged += [_Staged(change) for change in changes if change.after != change.before]
        for item in staged:
            item.write()
        for item in staged:
            swapped.append(item)
            item.swap()
    except OSError as error:
        for item in reversed(swapped):
            item.undo()
        where = f": {error.filename}" if isinstance(error.filename, str) else ""
        raise Failed(f"Nothing was changed: {error.strerror}{where}", "denied") from None
    finally:
        for item in staged:
            item.close()


class _Staged:
    """One change on its way, by names below a folder that is held open."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._place = change.found
        self._folder, self._name = _parent(change.found)
        mark = secrets.token_hex(6)
        self._new = f".{self._name[:80]}.{mark}.new"
        self._old = f".{self._name[:80]}.{mark}.old"

    def write(self) -> None:
        if self._change.after is not None:
            _write_new(self._new, self._folder, self._change.after, self._place)
        if self._change.before is not None:
            with suppress(OSError):  # without hard links there is no way back, and a single file needs none
                self._link(self._name, self._old)

    def swap(self) -> None:
        if self._change.after is None:
            os.unlink(self._name, dir_fd=self._folder)
        elif self._change.before is None:
            self._link(self._new, self._name)
        else:
            os.rename(self._new, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def undo(self) -> None:
        with suppress(OSError):
            if self._change.before is not None:
                os.rename(self._old, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            elif os.path.samestat(self._state(self._new), self._state(self._name)):
                os.unlink(self._name, dir_fd=self._folder)

    def close(self) -> None:
        for name in (self._new, self._old):
            with suppress(OSError):
                os.unlink(name, dir_fd=self._folder)
        os.close(self._folder)

    def _link(self, source: str, name: str) -> None:
        os.link(source, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)

    def _state(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False)


def _parent(place: Found) -> tuple[int, str]:
    """The folder to work in and the name there; folders on the way to a new file are made."""
    if not place.held.missing:
        return folder_of(place.held), place.held.path.rpartition("/")[2]
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(".", flags, dir_fd=place.held.fd)
    for name in place.held.missing[:-1]:
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            following = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = following
    return folder, place.held.missing[-1]


def _write_new(name: str, folder: int, data: bytes, place: Found) -> None:
    like = None if place.held.missing else place.state
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o666 if like is None else 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            with suppress(PermissionError):
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
        os.fsync(file.fileno())
