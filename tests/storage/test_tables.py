"""Custom agents without an event loop, for commands that must start fast."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from retinue.ports.records import AgentRecord
from retinue.schema.errors import Conflict
from retinue.schema.ids import DEFAULT_TENANT
from retinue.storage.sqlite import Database
from retinue.storage.tables import open_records

PROGRAM = """
import sys
from pathlib import Path
from retinue.storage.tables import open_records

with open_records(Path(sys.argv[1])) as records:
    try:
        records.all("default").send(None)
    except StopIteration as done:
        print([record.slug for record in done.value], "asyncio" in sys.modules)
"""


def record(id: str, slug: str) -> AgentRecord:
    return AgentRecord(id=id, slug=slug, fields={"name": slug}, created_at=1.0)


@pytest.mark.spec("REG-09")
async def test_the_database_and_the_records_alone_see_the_same_agents(database: Database, path: Path) -> None:
    await database.records.create(record("1", "poet"))

    with open_records(path) as records:
        await records.create(record("2", "critic"))
        with pytest.raises(Conflict):
            await records.create(record("3", "critic"))
        assert await records.delete(DEFAULT_TENANT, "1")
        assert [found.slug for found in await records.all(DEFAULT_TENANT)] == ["critic"]

    assert await database.records.all(DEFAULT_TENANT) == [record("2", "critic")]


async def test_reading_custom_agents_needs_no_event_loop(database: Database, path: Path) -> None:
    await database.records.create(record("1", "poet"))

    command = [sys.executable, "-c", PROGRAM, str(path)]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)

    assert said.stdout == "['poet'] False\n"
