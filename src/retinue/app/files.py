"""Writes a file whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, text: str, *, private: bool = False) -> None:
    """Replace `path` by `text` in one step; readers see the old file or the new one.

    Args:
        private: Only the owner may read it.
    """
    import tempfile  # a seventh of a start, and most commands write nothing

    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if private else (path.stat().st_mode & 0o777 if path.exists() else 0o644)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
