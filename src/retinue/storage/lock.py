"""Which process of a data folder drives: the one that holds this file's lock.

The kernel gives the lock up when its holder dies, however it dies. What may be
written is not decided here: every commit still checks the thread's epoch.
"""

import fcntl
import os
import time
from pathlib import Path

from retinue.schema.errors import StoreUnavailable

_RETRY_SECONDS = 0.1


class DriverLock:
    """Not shared between processes; a child started with fork must not keep it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def try_acquire(self) -> bool:
        """Take the lock if nobody has it.

        Raises:
            StoreUnavailable: the file can't be opened.
        """
        if self._file is not None:
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: the lock can't be opened: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        self._file = file
        return True

    def holder(self) -> str:
        """The process id of who holds it, for messages; empty when unknown."""
        try:
            return self._path.read_text().strip()
        except OSError:
            return ""

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the lock is ours; False when `timeout` passes first."""
        import asyncio

        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.try_acquire():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_RETRY_SECONDS)
        return True

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
