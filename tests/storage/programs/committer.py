"""Commits to several threads at once until it is killed, and says what was acknowledged.

    committer.py DATABASE THREADS

A line `THREAD HEAD` is written after each acknowledged commit, `+THREAD ENTRY` after each admission.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from retinue.ports.store import Claim, Commit, InboxEntry, NewThread, Store
from retinue.schema.ids import Tenant, ThreadId
from retinue.storage.sqlite import open_database


async def main(path: Path, threads: int) -> None:
    store = (await open_database(path)).store
    for i in range(threads):
        id = ThreadId(f"t{i}")
        await store.create(
            NewThread(id=id, tenant=Tenant("t"), root=id, agent="a", created_at=time.time(), events=(b"0",))
        )
    claims = await store.claim(str(os.getpid()), now=time.time(), lease=60.0, steal=True)
    await asyncio.gather(*(drive(store, claim) for claim in claims))


async def drive(store: Store, claim: Claim) -> None:
    head = claim.head
    while True:
        events = tuple(b"%d" % (head + i) for i in range(1 + head % 3))
        entry = InboxEntry(id=f"m{head}", kind="message", data=events[0] * 50, at=time.time())
        position = await store.admit(claim.thread, entry)
        say(f"+{claim.thread} {entry.id}")
        done = await store.commit(
            Commit(thread=claim.thread, epoch=claim.epoch, expected=head, events=events, drained=position - 1)
        )
        head = done.head
        say(f"{claim.thread} {head}")


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
