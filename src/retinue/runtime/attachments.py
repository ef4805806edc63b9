"""Files that cross threads: copied by content, under paths of the receiver's own.

A thread's files live in its folder below `attachments/`; a path that leaves that
folder is refused. Copies are made before the commit that tells of them, under a
name that holds the content's digest, so a repeated copy changes nothing.
"""

import mimetypes
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.schema.errors import UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.ids import ThreadId

if TYPE_CHECKING:
    from retinue.runtime.work import Work

FOLDER = "attachments"
MAX_BYTES = 32 * 1024 * 1024
MAX_FILES = 64


def send(work: "Work", paths: tuple[str, ...], receiver: ThreadId) -> tuple[list[FileAttached], tuple[str, ...]]:
    """Copy files of this thread (or its workspace) to another; the events belong in the receiver's log."""
    return _copy(work, paths, [work.runtime.files(work.thread), Path(work.state.thread.workspace)], receiver)


def receive(work: "Work", paths: tuple[str, ...], sender: ThreadId) -> tuple[list[FileAttached], tuple[str, ...]]:
    """Copy files of a child to this thread."""
    return _copy(work, paths, [work.runtime.files(sender), Path(work.state.thread.workspace)], work.thread)


def listed(paths: tuple[str, ...]) -> str:
    return "\n\nAttachments:\n" + "\n".join(f"- {path}" for path in paths) if paths else ""


def _copy(
    work: "Work", paths: tuple[str, ...], roots: list[Path], receiver: ThreadId
) -> tuple[list[FileAttached], tuple[str, ...]]:
    if len(paths) > MAX_FILES:
        raise UsageError(f"{len(paths)} attachments are more than {MAX_FILES}")
    events: list[FileAttached] = []
    for path in paths:
        source = _inside(path, roots)
        events.append(store(work.runtime.files(receiver), source.name, source.read_bytes(), at=work.now))
    return events, tuple(event.path for event in events)


def store(folder: Path, name: str, data: bytes, *, at: float) -> FileAttached:
    """Keep bytes among a thread's files; the path told is the receiver's own."""
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} has {len(data)} bytes; an attachment may have {MAX_BYTES}")
    digest = sha256(data).hexdigest()
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).lstrip(".") or "file"
    relative = f"{FOLDER}/{digest[:12]}-{safe}"
    target = folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(data)
        partial.rename(target)
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return FileAttached(at=at, path=str(target), digest=digest, size=len(data), mime=mime)


def _inside(path: str, roots: list[Path]) -> Path:
    """The file, when it lies in one of the folders that the sender may hand out of."""
    for root in roots:
        base = root.resolve()
        candidate = (base / path).resolve()
        if candidate.is_relative_to(base) and candidate.is_file():
            return candidate
    raise UsageError(f"{path} is not a file of this thread or its workspace")
