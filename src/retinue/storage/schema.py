"""The tables, as numbered migrations that only go forward.

A thread's row holds all that a commit checks and changes at once: lease, inbox
head, listing and its line of the ledger. Everything points to it by a small
integer key. The events of one commit share a row of `events`, filed under the
last one's seq: half the work of a row for each event, and `head` is always the
largest seq.
"""

import sqlite3
from pathlib import Path

from retinue.schema.errors import StoreUnavailable
from retinue.storage.connection import unavailable

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE threads (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, head INTEGER NOT NULL, owner TEXT,
            inbox_head INTEGER NOT NULL DEFAULT 0, drained INTEGER NOT NULL DEFAULT 0,
            lease REAL NOT NULL DEFAULT 0,
            parent_key INTEGER, cap_cost INTEGER, cap_tokens INTEGER,
            spent_cost INTEGER NOT NULL DEFAULT 0, spent_tokens INTEGER NOT NULL DEFAULT 0,
            reserved_cost INTEGER NOT NULL DEFAULT 0, reserved_tokens INTEGER NOT NULL DEFAULT 0,
            unpriced INTEGER NOT NULL DEFAULT 0,
            lease_until REAL NOT NULL DEFAULT 0, runnable_at REAL,
            status TEXT NOT NULL, waiting_for TEXT, title TEXT, agent TEXT NOT NULL,
            steps INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, cost INTEGER,
            updated_at REAL NOT NULL,
            tenant TEXT NOT NULL, root TEXT NOT NULL, parent TEXT, created_at REAL NOT NULL
        ) STRICT
        """,
        "CREATE INDEX threads_due ON threads (runnable_at) WHERE owner IS NULL AND runnable_at IS NOT NULL",
        "CREATE INDEX threads_owned ON threads (owner) WHERE owner IS NOT NULL",
        "CREATE INDEX threads_newest ON threads (created_at, id)",
        "CREATE INDEX threads_root ON threads (root)",
        "CREATE INDEX threads_parent ON threads (parent) WHERE parent IS NOT NULL",
        "CREATE TABLE events (thread INTEGER NOT NULL, seq INTEGER NOT NULL, sizes TEXT, data BLOB NOT NULL) STRICT",
        "CREATE UNIQUE INDEX events_seq ON events (thread, seq)",
        """
        CREATE TABLE inbox (
            thread INTEGER NOT NULL, position INTEGER NOT NULL,
            id TEXT NOT NULL, kind TEXT NOT NULL, data BLOB, at REAL NOT NULL,
            PRIMARY KEY (thread, position)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE UNIQUE INDEX inbox_id ON inbox (thread, id)",
        """
        CREATE TABLE reservations (
            thread INTEGER NOT NULL, request TEXT NOT NULL,
            cost INTEGER NOT NULL, tokens INTEGER NOT NULL, settled INTEGER NOT NULL,
            PRIMARY KEY (thread, request)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE questions (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, thread INTEGER NOT NULL,
            open INTEGER NOT NULL, data BLOB NOT NULL, expires REAL
        ) STRICT
        """,
        "CREATE INDEX questions_thread ON questions (thread)",
        "CREATE INDEX questions_open ON questions (number) WHERE open",
        """
        CREATE TABLE agents (
            tenant TEXT NOT NULL, id TEXT NOT NULL, slug TEXT NOT NULL, fields BLOB NOT NULL,
            created_at REAL NOT NULL, updated_at REAL, override INTEGER NOT NULL,
            PRIMARY KEY (tenant, id)
        ) STRICT
        """,
        "CREATE UNIQUE INDEX agents_slug ON agents (tenant, slug)",
        """
        CREATE TABLE memory (
            tenant TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
            value BLOB NOT NULL, expires REAL, updated_at REAL NOT NULL, taints BLOB NOT NULL,
            PRIMARY KEY (tenant, namespace, key)
        ) STRICT
        """,
        """
        CREATE TABLE grants (
            number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, thread TEXT,
            tool TEXT NOT NULL, pattern TEXT NOT NULL, exact TEXT, definition_hash TEXT NOT NULL,
            created_at REAL NOT NULL, question TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX grants_of ON grants (tenant, thread)",
    ),
    (
        """
        CREATE TABLE keys (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, tenant TEXT NOT NULL, scopes TEXT NOT NULL, digest TEXT NOT NULL,
            created_at REAL NOT NULL, expires REAL, revoked_at REAL, used_at REAL
        ) STRICT
        """,
        """
        CREATE TABLE answers (
            key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, owner TEXT NOT NULL,
            status INTEGER NOT NULL, body TEXT, at REAL NOT NULL
        ) STRICT
        """,
        "CREATE INDEX answers_at ON answers (at)",
        """
        CREATE TABLE deliveries (
            repository TEXT NOT NULL, id TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (repository, id)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX deliveries_at ON deliveries (at)",
    ),
    (
        """
        CREATE TABLE a2a_tasks (
            thread TEXT PRIMARY KEY, tenant TEXT NOT NULL, caller TEXT NOT NULL, agent TEXT NOT NULL,
            context TEXT NOT NULL, created_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX a2a_tasks_of ON a2a_tasks (tenant, caller, context)",
        """
        CREATE TABLE a2a_pushes (
            thread TEXT NOT NULL, id TEXT NOT NULL, config TEXT NOT NULL, sent INTEGER NOT NULL,
            PRIMARY KEY (thread, id)
        ) STRICT, WITHOUT ROWID
        """,
    ),
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file up to this version, all in one transaction.

    Raises:
        StoreUnavailable: a newer Retinue has written it, or SQLite can't.
    """
    try:
        if _is_current(connection, path):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not _is_current(connection, path):  # another process may have been first
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                for migration in MIGRATIONS[version:]:
                    for statement in migration:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise unavailable(error, path) from error


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreUnavailable(
            f"{path}: the database has version {version}, written by a newer Retinue; "
            f"this one knows versions up to {len(MIGRATIONS)}",
            hint="upgrade Retinue, or use another data folder",
        )
    return version == len(MIGRATIONS)
