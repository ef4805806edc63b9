"""Files that only their owner may read."""

import os
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Write or replace one, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)
