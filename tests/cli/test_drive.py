"""The process in the background: it does what is left to do, once, and ends."""

from pathlib import Path

import pytest

from retinue.storage.lock import DriverLock
from support.scripted import Setup


@pytest.mark.spec("RUN-11")
async def test_it_does_what_is_left_and_ends(scripted: Setup) -> None:
    scripted.agent("echo", always="<{{message}}>")

    threads = [scripted.retinue("run", "echo", f"{n}", "--detach", code=0).stdout.strip() for n in range(3)]

    assert [scripted.wait(thread)["result"] for thread in threads] == ["<0>", "<1>", "<2>"]
    for name in ("background.lock", "driver.lock"):
        lock = DriverLock(Path(scripted.home) / name)
        assert await lock.wait(30.0)
        lock.release()
