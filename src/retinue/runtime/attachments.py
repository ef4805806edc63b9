"""Files that cross threads: copied by content, under paths of the receiver's own.

A thread's files live in its folder below `attachments/`. What it hands out lies in
that folder, or in its workspace and is one that its rules let it read; everything
else is refused, whatever links lead to it. Copies are made before the commit that
tells of them, under a name that holds the content's digest, so a repeated copy
changes nothing.
"""

import mimetypes
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.policy.calls import judge_target
from retinue.ports.tool import Target
from retinue.runtime import permit
from retinue.sandbox import descriptors
from retinue.schema.errors import UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.ids import ThreadId

if TYPE_CHECKING:
    from retinue.runtime.work import Work

FOLDER = "attachments"
MAX_BYTES = 32 * 1024 * 1024
MAX_FILES = 64
_DIGEST = 12


def send(work: "Work", paths: tuple[str, ...], receiver: ThreadId) -> tuple[list[FileAttached], tuple[str, ...]]:
    """Copy files of this thread (or its workspace) to another; the events belong in the receiver's log.

    Raises:
        UsageError: one of them can't be handed out; nothing was told.
    """
    if len(paths) > MAX_FILES:
        raise UsageError(f"{len(paths)} attachments are more than {MAX_FILES}")
    contents = [_handed_out(work, path) for path in paths]
    events = [store(work.runtime.files(receiver), name, data, at=work.now) for name, data in contents]
    return events, tuple(event.path for event in events)


def keep(work: "Work", paths: tuple[str, ...]) -> tuple[list[FileAttached], tuple[str, ...]]:
    """Copy what a completion hands out to the thread's own files, where nothing changes it; and what can't be."""
    events: list[FileAttached] = []
    lost = list(paths[MAX_FILES:])
    for path in paths[:MAX_FILES]:
        try:
            name, data = _handed_out(work, path)
            events.append(store(work.runtime.files(work.thread), name, data, at=work.now))
        except UsageError:
            lost.append(path)
    return events, tuple(lost)


def receive(work: "Work", paths: tuple[str, ...], sender: ThreadId) -> tuple[list[FileAttached], tuple[str, ...]]:
    """Copy files that a child has kept to this thread; one that is gone is left out."""
    folder = work.runtime.files(sender)
    events: list[FileAttached] = []
    for path in paths[:MAX_FILES]:
        found = _read(path, folder)
        if found is not None:
            events.append(store(work.runtime.files(work.thread), found[0], found[1], at=work.now))
    return events, tuple(event.path for event in events)


def listed(paths: tuple[str, ...]) -> str:
    return "\n\nAttachments:\n" + "\n".join(f"- {path}" for path in paths) if paths else ""


def store(folder: Path, name: str, data: bytes, *, at: float) -> FileAttached:
    """Keep bytes among a thread's files; the path told is the receiver's own."""
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} has {len(data)} bytes; an attachment may have {MAX_BYTES}")
    digest = sha256(data).hexdigest()
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).lstrip(".")[-100:] or "file"
    relative = f"{FOLDER}/{digest[:_DIGEST]}-{safe}"
    target = folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(data)
        partial.rename(target)
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return FileAttached(at=at, path=str(target), digest=digest, size=len(data), mime=mime)


def _handed_out(work: "Work", path: str) -> tuple[str, bytes]:
    """The name and content of a file that this thread may give to others.

    Raises:
        UsageError: it is none, it is too large, or a rule keeps the thread from reading it.
    """
    if own := _read(path, work.runtime.files(work.thread)):
        return own
    if found := _read(path, Path(work.state.thread.workspace), work):
        return found
    raise UsageError(f"{path} is not a file of this thread or its workspace")


def _read(path: str, root: Path, judged_by: "Work | None" = None) -> tuple[str, bytes] | None:
    """The file, if what the path leads to lies below `root`; read from the descriptor that was looked at."""
    base = os.path.realpath(root)
    try:
        found = descriptors.locate(str(Path(base, path)), base)
    except (OSError, ValueError):
        return None
    try:
        about = os.fstat(found.fd)
        if found.missing or not stat.S_ISREG(about.st_mode) or not Path(found.path).is_relative_to(base):
            return None
        if judged_by is not None:
            _judge(judged_by, path, found.path)
        if about.st_size > MAX_BYTES:
            raise UsageError(f"{path} has {about.st_size} bytes; an attachment may have {MAX_BYTES}")
        return _plain_name(found.path), descriptors.content(found, MAX_BYTES + 1)
    finally:
        os.close(found.fd)


def _judge(work: "Work", path: str, real: str) -> None:
    decision = judge_target(permit.authority(work), Target(op="read", asked=real, path=real), "read")
    if decision.verdict != "allow":
        raise UsageError(f"{path} can't be handed over, because you may not read it: {decision.reason}")


def _plain_name(path: str) -> str:
    """A copy's name without the digest of the copy that it is made from."""
    file = Path(path)
    digest, _, plain = file.name.partition("-")
    copied = file.parent.name == FOLDER and len(digest) == _DIGEST
    return plain if copied and plain else file.name
