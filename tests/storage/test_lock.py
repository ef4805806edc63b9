"""Who drives a data folder, and what happens when that process dies."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.schema.errors import StoreUnavailable
from retinue.storage.lock import DriverLock

Start = Callable[..., subprocess.Popen[str]]


def test_one_holder_at_a_time_says_who_it_is(tmp_path: Path) -> None:
    one, two = DriverLock(tmp_path / "a" / "lock"), DriverLock(tmp_path / "a" / "lock")
    assert two.holder() == ""

    assert one.try_acquire() and one.try_acquire() and one.held
    assert not two.try_acquire() and not two.held
    assert two.holder() == str(os.getpid())

    one.release()
    assert two.try_acquire()
    two.release()
    assert one.holder() == ""


async def test_the_lock_of_a_killed_process_is_free(path: Path, start: Start) -> None:
    process = start("driver", path)
    assert process.stdout is not None and process.stdout.readline() == "driving\n"
    lock = DriverLock(path.with_name("driver.lock"))
    assert not await lock.wait(timeout=0.0)
    assert lock.holder() == str(process.pid)

    waiting = asyncio.create_task(lock.wait(timeout=20.0))
    await asyncio.sleep(0)
    process.kill()

    assert await waiting
    assert lock.holder() == str(os.getpid())
    lock.release()


def test_a_lock_that_can_not_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailable, match="file/lock: the lock can't be opened"):
        DriverLock(tmp_path / "file" / "lock").try_acquire()
