"""Opens connections to the database file and says in words what is wrong with one.

Pragmas and permissions are decided here and nowhere else; what is in the file
is `retinue.storage.schema`'s business.
"""

import errno
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from retinue.schema.errors import StoreUnavailable

BUSY_SECONDS = 10.0
"""How long a write waits for another process's transaction."""

_OLDEST_SQLITE = (3, 37, 0)  # STRICT tables; RETURNING came just before

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",
    "PRAGMA checkpoint_fullfsync=ON",
    "PRAGMA cache_size=-16000",
    "PRAGMA journal_size_limit=67108864",
)

_CAUSES: tuple[tuple[str, str, str], ...] = (
    ("SQLITE_FULL", "the disk is full", "free some space and start again; nothing acknowledged is lost"),
    ("SQLITE_IOERR", "the disk reported an error", "check the disk and free space, then start again"),
    ("SQLITE_READONLY", "it can't be written", "make the file and its folder writable for this user"),
    ("SQLITE_CANTOPEN", "it can't be opened", "make the folder exist and writable for this user"),
    ("SQLITE_PERM", "it can't be opened", "make the file readable and writable for this user"),
    ("SQLITE_AUTH", "it can't be opened", "make the file readable and writable for this user"),
    ("SQLITE_CORRUPT", "it is damaged", "restore a backup, or recover what is left with `sqlite3 FILE .recover`"),
    ("SQLITE_NOTADB", "it is not a database", "point the data folder elsewhere, or restore a backup"),
    ("SQLITE_BUSY", f"another process kept it locked for {BUSY_SECONDS:g} s", "try again, or stop that process"),
    ("SQLITE_LOCKED", "another process keeps it locked", "try again, or stop that process"),
)


def connect(path: Path, *, reads_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode with every pragma set.

    Raises:
        StoreUnavailable: the file can't be opened, or isn't a database.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        wanted = ".".join(map(str, _OLDEST_SQLITE))
        raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; Retinue needs {wanted} or later")
    try:
        _create_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except OSError as error:
        raise StoreUnavailable(f"{path}: the database can't be opened: {error.strerror}") from error
    except sqlite3.Error as error:
        raise unavailable(error, path) from error
    try:
        _enter_wal(connection)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        if reads_only:
            connection.execute("PRAGMA query_only=ON")
    except sqlite3.Error as error:
        connection.close()
        raise unavailable(error, path) from error
    return connection


def unavailable(error: Exception, path: Path) -> StoreUnavailable:
    """What a person is told about an error of SQLite, or of our own use of it."""
    name = getattr(error, "sqlite_errorname", "")
    for prefix, found, hint in _CAUSES:
        if name.startswith(prefix):
            return StoreUnavailable(f"{path}: the database can't be used: {found} ({error})", hint=hint)
    return StoreUnavailable(f"{path}: the database can't be used: {error}")


def fetch(connection: sqlite3.Connection, path: Path, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
    """All rows of a short query; no transaction is left open."""
    try:
        return connection.execute(sql, parameters).fetchall()
    except sqlite3.Error as error:
        raise unavailable(error, path) from error


def _create_private(path: Path) -> None:
    """Conversations are the user's alone; SQLite gives its side files the mode of this one.

    A file that exists is never opened here: closing it would drop the locks that
    this process's connections hold on it, and another process could remove the
    write-ahead log under them. So a new one is closed before it gets its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    unnamed = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    os.close(os.open(unnamed, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        path.hardlink_to(unnamed)
    except FileExistsError:
        pass  # another process was first
    except OSError:  # a file system without links
        os.close(os.open(path, os.O_CREAT, 0o600))
    finally:
        unnamed.unlink()


def _enter_wal(connection: sqlite3.Connection) -> None:
    """SQLite refuses this at once, without its busy timeout, while another process does the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
