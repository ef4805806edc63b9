"""Commits until the disk takes no more, then makes room and goes on.

    full_disk.py DATABASE LIMIT

Files may not grow past LIMIT bytes at first. Prints one JSON object that says
what was acknowledged, what failed and how, and what was there afterwards.
"""

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from retinue.ports.store import Commit, NewThread
from retinue.schema.errors import StoreUnavailable
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.sqlite import Database, open_database

THREAD = ThreadId("t")
EVENT = b"x" * 3000


async def main(path: Path, limit: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    database = await open_database(path)
    await database.store.create(
        NewThread(id=THREAD, tenant=Tenant("t"), root=THREAD, agent="a", created_at=0.0, events=(EVENT,))
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    acknowledged, error = await fill(database)
    later = await again(database, acknowledged)
    still_reads = len(await database.store.events(THREAD))
    await database.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    database = await open_database(path)
    problems = await database.check()
    recovered = len(await database.store.events(THREAD))
    (claim,) = await database.store.claim("two", now=time.time(), lease=30.0, steal=True)
    done = await database.store.commit(
        Commit(thread=THREAD, epoch=claim.epoch, expected=recovered, events=(EVENT, EVENT))
    )
    await database.close()
    print(
        json.dumps(
            {
                "acknowledged": acknowledged,
                "error": error,
                "later": later,
                "still_reads": still_reads,
                "problems": problems,
                "recovered": recovered,
                "head": done.head,
            }
        )
    )


async def fill(database: Database) -> tuple[int, str]:
    (claim,) = await database.store.claim("one", now=time.time(), lease=30.0)
    head = claim.head
    while True:
        try:
            done = await database.store.commit(Commit(thread=THREAD, epoch=claim.epoch, expected=head, events=(EVENT,)))
        except StoreUnavailable as error:
            return head, error.message
        head = done.head


async def again(database: Database, head: int) -> str:
    try:
        await database.store.commit(Commit(thread=THREAD, epoch=1, expected=head, events=(EVENT,)))
    except StoreUnavailable as error:
        return error.message
    return ""


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
