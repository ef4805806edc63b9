"""Who in this process waits for a thread to grow, or for any thread to become runnable."""

import asyncio
from collections.abc import Callable

_ANY = ""
"""The key of those who wait for work; no thread has it."""


class Waiting:
    """Told of every commit by the writer; used on the event loop's thread only."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[bool]]] = {}
        self._woke = False

    def committed(self, moved: set[str], *, woke: bool) -> None:
        if self._waiters:
            for thread in moved & self._waiters.keys():
                self._wake(thread)
        if woke:
            self._woke = True
            self._wake(_ANY)

    def written_elsewhere(self) -> None:
        self._woke = True
        for key in tuple(self._waiters):
            self._wake(key)

    async def for_thread(self, thread: str, is_so: Callable[[], bool], timeout: float) -> bool:
        """Wait until `is_so`, asking again whenever the thread may have changed."""
        deadline = asyncio.get_running_loop().time() + timeout
        woken = True
        while not is_so():
            if not woken:
                return False
            woken = await self._wait(thread, deadline)
        return True

    async def for_work(self, timeout: float) -> bool:
        """True when something woke since the last call returned."""
        if not self._woke:
            await self._wait(_ANY, asyncio.get_running_loop().time() + timeout)
        woke, self._woke = self._woke, False
        return woke

    async def _wait(self, key: str, deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        timer = loop.call_at(deadline, _resolve, future)
        self._waiters.setdefault(key, set()).add(future)
        try:
            return await future
        finally:
            timer.cancel()
            waiting = self._waiters[key]
            waiting.discard(future)
            if not waiting:
                del self._waiters[key]

    def _wake(self, key: str) -> None:
        for future in self._waiters.get(key, ()):
            _resolve(future, woken=True)


def _resolve(future: "asyncio.Future[bool]", *, woken: bool = False) -> None:
    if not future.done():
        future.set_result(woken)
