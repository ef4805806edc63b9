"""Files of other versions."""

import sqlite3
from pathlib import Path

import pytest

from retinue.schema.errors import StoreUnavailable
from retinue.storage.connection import connect
from retinue.storage.schema import MIGRATIONS, migrate
from retinue.storage.sqlite import Database, open_database


def set_version(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={version}")
    connection.close()


@pytest.mark.spec("SCALE-05")
async def test_a_file_of_a_newer_version_is_refused_and_left_alone(database: Database, path: Path) -> None:
    await database.close()
    set_version(path, len(MIGRATIONS) + 1)

    with pytest.raises(StoreUnavailable, match=f"version {len(MIGRATIONS) + 1}, written by a newer Retinue"):
        await open_database(path)

    set_version(path, len(MIGRATIONS))
    await (await open_database(path)).close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    connection = connect(path)
    connection.execute("CREATE TABLE memory (in_the_way)")

    with pytest.raises(StoreUnavailable, match="table memory already exists"):
        migrate(connection, path)

    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    assert tables == ["memory"]
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def test_migrating_twice_is_migrating_once(path: Path) -> None:
    connection = connect(path)
    migrate(connection, path)
    before = connection.total_changes
    migrate(connection, path)
    assert connection.total_changes == before
    connection.close()
