"""Disks that fill up, folders that can't be written, files that are damaged: clear words, and nothing lost."""

import json
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retinue.ports.store import Commit, NewThread
from retinue.schema.errors import StoreUnavailable
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.connection import connect, unavailable
from retinue.storage.sqlite import open_database

Start = Callable[..., subprocess.Popen[str]]

THREADS = [ThreadId(f"t{i}") for i in range(20)]
PAGE = 4096


@pytest.mark.spec("RUN-01", "RUN-11")
@pytest.mark.parametrize("limit", [260_000, 1_000_000])
async def test_a_full_disk_is_said_and_loses_nothing_acknowledged(path: Path, start: Start, limit: int) -> None:
    said = json.loads(start("full_disk", path, limit).communicate(timeout=60)[0])

    assert "the database can't be used: the disk" in said["error"]
    assert said["later"] == said["error"]  # the writer has stopped
    assert said["acknowledged"] > 1
    assert said["still_reads"] == said["acknowledged"]
    assert said["problems"] == []
    assert said["recovered"] >= said["acknowledged"]
    assert said["head"] == said["recovered"] + 2


def test_a_disk_without_room_is_called_full(path: Path) -> None:
    connection = connect(path)
    connection.execute("PRAGMA max_page_count=2")

    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("CREATE TABLE a (b)")
        connection.execute("CREATE TABLE c (d)")
    connection.close()

    error = unavailable(raised.value, path)
    assert error.message.startswith(f"{path}: the database can't be used: the disk is full")
    assert error.hint is not None and "free some space" in error.hint


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that another user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_a_folder_that_can_not_be_written_is_said(folder: Path, start: Start) -> None:
    folder.chmod(0o555)

    said = start("read_only", folder / "retinue.db").communicate(timeout=60)[0]

    assert said == f"{folder}/retinue.db: the database can't be opened: Permission denied\n"


async def test_a_database_that_can_only_be_read_is_said(folder: Path, start: Start) -> None:
    await (await open_database(folder / "retinue.db")).close()
    (folder / "retinue.db").chmod(0o444)
    folder.chmod(0o555)

    said = start("read_only", folder / "retinue.db").communicate(timeout=60)[0]

    assert said == f"{folder}/retinue.db: the database can't be opened: Permission denied\n"


async def test_a_path_that_goes_through_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailable, match=r"file/retinue\.db: the database can't be opened: "):
        await open_database(tmp_path / "file" / "retinue.db")


async def filled(path: Path) -> None:
    """A database whose last pages are full of events."""
    database = await open_database(path)
    for id in THREADS:
        new = NewThread(id=id, tenant=Tenant("t"), root=id, agent="a", created_at=0.0, events=(id.encode() * 300,) * 3)
        await database.store.create(new)
    await database.close()


async def test_a_file_that_is_no_database_is_said(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"all sorts of things " * 1000)

    with pytest.raises(StoreUnavailable, match="it is not a database"):
        await open_database(path)


async def test_a_damaged_last_page_is_said_by_whoever_meets_it(path: Path) -> None:
    await filled(path)
    with path.open("r+b") as file:
        file.seek(-PAGE, 2)
        file.write(b"\xff" * PAGE)
    database = await open_database(path)

    with pytest.raises(StoreUnavailable, match="it is damaged") as raised:
        for id in THREADS:
            await database.store.events(id)

    assert raised.value.hint is not None
    assert "damaged" in (await database.check())[0]
    await database.close()


async def test_a_cut_off_file_is_said(path: Path) -> None:
    await filled(path)
    with path.open("r+b") as file:
        file.truncate(file.seek(0, 2) - 10 * PAGE)

    with pytest.raises(StoreUnavailable, match="it is damaged"):
        await open_database(path)


async def test_damage_met_while_writing_stops_the_writer(path: Path) -> None:
    await filled(path)
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'threads_newest'").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)
    database = await open_database(path)
    id = ThreadId("new")
    new = NewThread(id=id, tenant=Tenant("t"), root=id, agent="a", created_at=0.0, events=(b"1",))

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="it is damaged"):
            await database.store.create(new)
    assert await database.store.row(id) is None
    await database.close()


@pytest.mark.spec("RUN-11")
async def test_a_torn_write_after_the_last_commit_is_ignored(path: Path, tmp_path: Path) -> None:
    """What a power cut leaves: the commits, and part of one that nobody was told of."""
    database = await open_database(path)
    id = THREADS[0]
    await database.store.create(
        NewThread(id=id, tenant=Tenant("t"), root=id, agent="a", created_at=0.0, events=(b"1",))
    )
    (claim,) = await database.store.claim("one", now=1.0, lease=30.0)
    await database.store.commit(Commit(thread=id, epoch=claim.epoch, expected=1, events=(b"2",)))
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    wal = path.with_name(path.name + "-wal").read_bytes()
    copy.with_name("copy.db-wal").write_bytes(wal + wal[-1000:])
    await database.close()

    database = await open_database(copy)

    assert [event.data for event in await database.store.events(id)] == [b"1", b"2"]
    assert await database.check() == []
    await database.close()
