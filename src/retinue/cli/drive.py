"""A process in the background that drives threads until there is nothing left to do.

Commands that only say something to a thread start one, so that nobody has to
wait in front of it: `run --detach`, `answer`, `threads message`. There is at most one
for a data folder; while another process drives, it stands by.
"""

import asyncio
import subprocess
import sys
import time

from retinue.app.settings import Settings
from retinue.cli.here import settings_here
from retinue.cli.opening import data_folder, database_here, opened
from retinue.ports.store import Store
from retinue.storage.lock import DriverLock

_LINGERS = 120.0
"""Seconds for which it waits for a thread that is due later, such as a retry."""


def ensure_driver(settings: Settings) -> None:
    """See to it that what was admitted is driven. Returns at once; the process outlives this one."""
    with (data_folder(settings) / "retinue.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "retinue.cli.drive"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def main() -> None:
    lock = DriverLock(data_folder(settings_here()) / "background.lock")
    while lock.try_acquire():
        try:
            asyncio.run(_drive())
        finally:
            lock.release()
        # Whoever came while we held the lock left the work to us.
        if not asyncio.run(_is_work_left()):
            return


async def _drive() -> None:
    async with opened(settings_here(), drive=True) as app:
        store = app.engine.runtime.store
        while True:
            await asyncio.sleep(0.2)
            if not await app.idle(5.0) or await _due(store):
                continue
            if app.engine.drives or not await store.rows(None, status=("running",), limit=1):
                return


async def _is_work_left() -> bool:
    async with database_here() as database:
        return await _due(database.store)


async def _due(store: Store) -> bool:
    due = await store.next_due()
    return due is not None and due < time.time() + _LINGERS


if __name__ == "__main__":
    main()
