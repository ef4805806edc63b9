"""Drives a data folder as soon as nobody else does: what is admitted to a thread goes into its log.

    driver.py DATABASE

Says `driving` when it has the lock, and runs until it is killed.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from retinue.ports.store import Claim, Commit, Park, Store
from retinue.storage.lock import DriverLock
from retinue.storage.sqlite import open_database

OWNER = str(os.getpid())


async def main(path: Path) -> None:
    store = (await open_database(path)).store
    await DriverLock(path.with_name("driver.lock")).wait()
    print("driving", flush=True)
    while True:
        for claim in await store.claim(OWNER, now=time.time(), lease=60.0, steal=True):
            await drain(store, claim)
        await store.work(60.0)


async def drain(store: Store, claim: Claim) -> None:
    row = await store.row(claim.thread)
    assert row is not None
    head, seen, parked = row.head, row.drained, False
    while not parked:
        entries = await store.inbox(claim.thread, limit=2)
        seen = entries[-1].position if entries else seen
        done = await store.commit(
            Commit(
                thread=claim.thread,
                epoch=claim.epoch,
                expected=head,
                events=tuple(stored.entry.data for stored in entries),
                drained=seen,
                park=None if entries else Park(inbox_head=seen),
            )
        )
        head, parked = done.head, done.parked


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
