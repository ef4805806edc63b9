"""The one thread of a process that writes, and its group commit.

Everything queued while a transaction was being made durable shares the next
one. Work is expected to check before it writes, so a refusal costs nothing and
fails alone; work that fails after it wrote something makes the group run again
with a savepoint for each. A failed COMMIT fails the whole group and stops the
writer: what is on the disk is then unknown until the file is opened again.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, Protocol, TypeVar, TypeVarTuple

from retinue.schema.errors import StoreUnavailable
from retinue.storage.connection import unavailable

POLL_SECONDS = 0.05
"""How late a write of another process is noticed, while somebody waits for one."""

_LINGER_SECONDS = 1.0
_LARGEST_GROUP = 256

_A = TypeVar("_A")
_R = TypeVar("_R")
_Ts = TypeVarTuple("_Ts")


class Transaction:
    """What a piece of work may use, and what it tells those who wait."""

    __slots__ = ("execute", "moved", "now", "woke")

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self.execute = connection.cursor().execute
        self.now = now
        self.moved: set[str] = set()
        """Threads whose log has grown."""
        self.woke = False
        """Some thread may have become runnable."""


class Listener(Protocol):
    """Called on the event loop's thread."""

    def committed(self, moved: set[str], *, woke: bool) -> None: ...
    def written_elsewhere(self) -> None: ...


class Writer:
    """Owns `connection` from now on. Belongs to the running event loop."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, *, now: Callable[[], float], listener: Listener
    ) -> None:
        self._connection = connection
        self._path = path
        self._now = now
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Queued | None] = SimpleQueue()
        self._watchers = 0
        self._polling = False
        self._polls_until = 0.0
        self._closing = False
        self._failure: Exception | None = None
        self._looked_at = 0.0
        self._version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        self._ended = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="retinue-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Transaction, _A], _R], argument: _A) -> _R:
        """Run `work` in the next transaction; returns when that is on disk.

        A caller that is cancelled doesn't know whether it happened.

        Raises:
            StoreUnavailable: it could not be made durable, or the writer has stopped.
        """
        if self._failure is not None or self._closing:
            raise self._stopped()
        job = _Job(work, argument, self._loop.create_future())
        self._queue.put(job)
        return await job.future

    def watch(self) -> None:
        """Look for other processes' writes until the matching `unwatch`."""
        self._watchers += 1
        if not self._polling:
            self._queue.put(None)

    def unwatch(self) -> None:
        """Lingers a moment: who follows a thread comes back at once, and need not wake the writer for it."""
        self._watchers -= 1
        self._polls_until = monotonic() + _LINGER_SECONDS

    async def close(self) -> None:
        """Finish what is queued, then stop."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._failure is None and not (self._closing and self._queue.empty()):
                if group := self._take():
                    self._commit(group)
                if self._polling and monotonic() - self._looked_at >= POLL_SECONDS:
                    self._look_elsewhere()
        finally:  # whatever it was, nobody waits for a writer that is gone
            self._closing = True
            self._connection.close()
            self._tell(self._end)

    def _take(self) -> "list[_Queued]":
        """All that is queued; empty after a wake-up without work, or when it is time to look elsewhere."""
        queue = self._queue
        self._polling = False  # before looking, so that `watch` can't slip in between and go unnoticed
        self._polling = self._watchers > 0 or monotonic() < self._polls_until
        try:
            first = queue.get(timeout=POLL_SECONDS if self._polling else None)
        except Empty:
            return []
        group = [first] if first is not None else []
        while len(group) < _LARGEST_GROUP and not queue.empty():
            if (job := queue.get()) is not None:
                group.append(job)
        return group

    def _commit(self, group: "Sequence[_Queued]", *, one_by_one: bool = False) -> None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                self._fail(group, error)
            else:
                self._stop(group, error)
            return
        try:
            transaction = self._apply_one_by_one(group) if one_by_one else self._apply(group)
            connection.execute("COMMIT" if transaction else "ROLLBACK")
        except Exception as error:  # whatever it is, a dead writer must not leave anybody waiting
            self._stop(group, error)
            return
        if transaction is None:
            self._commit(group, one_by_one=True)
        else:
            self._tell(self._settle, group, transaction)

    def _apply(self, group: "Sequence[_Queued]") -> Transaction | None:
        """None when something failed halfway, so that all must be rolled back."""
        connection = self._connection
        transaction = Transaction(connection, self._now())
        for job in group:
            before = connection.total_changes
            if not _attempt(job, transaction) and connection.total_changes != before:
                return None
        return transaction

    def _apply_one_by_one(self, group: "Sequence[_Queued]") -> Transaction:
        connection = self._connection
        transaction = Transaction(connection, self._now())
        for job in group:
            connection.execute("SAVEPOINT job")
            if not _attempt(job, transaction):
                connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        return transaction

    def _settle(self, group: "Sequence[_Queued]", transaction: Transaction) -> None:
        for job in group:
            job.settle()
        self._listener.committed(transaction.moved, woke=transaction.woke)

    def _look_elsewhere(self) -> None:
        """`data_version` moves only for other connections' commits, so our own never wake anybody twice."""
        self._looked_at = monotonic()
        try:
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            self._stop((), error)
            return
        if version != self._version:
            self._version = version
            self._tell(self._listener.written_elsewhere)

    def _stop(self, group: "Sequence[_Queued]", error: Exception) -> None:
        self._failure = error
        with suppress(sqlite3.Error):  # there may be no transaction any more; closing ends it in any case
            self._connection.execute("ROLLBACK")
        self._fail(group, error)

    def _fail(self, group: "Sequence[_Queued]", error: Exception) -> None:
        for job in group:
            job.error = unavailable(error, self._path)
        self._tell(self._settle, group, Transaction(self._connection, 0.0))

    def _tell(self, callback: Callable[[*_Ts], None], *arguments: *_Ts) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the event loop is gone, and everybody who waited with it
            self._closing = True

    def _end(self) -> None:
        while not self._queue.empty():
            if (job := self._queue.get()) is not None:
                job.error = self._stopped()
                job.settle()
        self._ended.set_result(None)

    def _stopped(self) -> StoreUnavailable:
        if self._failure is not None:
            return unavailable(self._failure, self._path)
        return StoreUnavailable(f"{self._path}: the database was closed")


class _Queued(Protocol):
    error: Exception | None

    def run(self, transaction: Transaction) -> None: ...
    def settle(self) -> None: ...


class _Job(Generic[_A, _R]):
    __slots__ = ("argument", "error", "future", "result", "work")

    def __init__(self, work: Callable[[Transaction, _A], _R], argument: _A, future: "asyncio.Future[_R]") -> None:
        self.work = work
        self.argument = argument
        self.future = future
        self.error: Exception | None = None
        self.result: _R

    def run(self, transaction: Transaction) -> None:
        self.result = self.work(transaction, self.argument)

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


_FAULTS_OF_WORK = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


def _attempt(job: _Queued, transaction: Transaction) -> bool:
    """False when the job itself is at fault; a fault of the database is raised."""
    try:
        job.error = None
        job.run(transaction)
    except Exception as error:
        if isinstance(error, sqlite3.Error) and not isinstance(error, _FAULTS_OF_WORK):
            raise
        job.error = error
        return False
    return True
