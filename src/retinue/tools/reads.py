"""Which files a thread has read, and in which state, so that it never changes what it has not seen.

Kept as one small file each among the thread's files, so it survives restarts
and parallel calls do not meet.
"""

import hashlib
from pathlib import Path

from retinue.ports.tool import ToolContext

_FOLDER = ".reads"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def remember(context: ToolContext, path: str, state: str) -> None:
    """Note that the thread knows the file at the real `path` in this state, a digest."""
    place = _place(context, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(state, encoding="ascii")


def remembered(context: ToolContext, path: str) -> str | None:
    try:
        return _place(context, path).read_text(encoding="ascii")
    except FileNotFoundError:
        return None


def _place(context: ToolContext, path: str) -> Path:
    return Path(context.files) / _FOLDER / hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()
