"""Who runs a thread in one process: claims what is runnable and keeps one task per thread.

Knows nothing of what running means: `app` hands in `run`, which drives a claimed
thread until it parks, and `look`, which is told of threads that somebody wrote to.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from retinue.ports.clock import Clock
from retinue.ports.store import Claim, Store
from retinue.schema.errors import StoreUnavailable
from retinue.schema.ids import ThreadId

log = logging.getLogger("retinue.dispatch")
_IDLE = 5.0
"""Seconds between looks when nothing is due and nobody wakes us."""
_PAUSE = 1.0
"""Seconds before the next look when one failed, and before who does not stop is told again."""
_TELLINGS = 5


class LocalDispatcher:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        owner: str,
        run: Callable[[Claim], Awaitable[None]],
        look: Callable[[Sequence[ThreadId]], Awaitable[None]],
        lease: float = 30.0,
        at_once: int = 4096,
        per_agent: Mapping[str, int] | None = None,
        steal: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._run = run
        self._look = look
        self._lease = lease
        self._at_once = at_once
        self._per_agent = per_agent or {}
        """How many threads of an agent may be at work at once; the others wait, the longest first."""
        self._busy: Counter[str] = Counter()
        self._freed = asyncio.Event()
        self._steal = steal
        self._tasks: dict[ThreadId, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._loops = [asyncio.create_task(self._claim_loop()), asyncio.create_task(self._renew_loop())]

    @property
    def active(self) -> int:
        return len(self._tasks)

    async def idle(self, seconds: float) -> bool:
        """Wait until no thread is being driven; False when the time is up first."""
        tasks = list(self._tasks.values())
        if not tasks:
            return True
        _, pending = await asyncio.wait(tasks, timeout=seconds)
        return not pending

    async def stop(self) -> None:
        """Stop claiming and cancel what runs: the logs say where to go on.

        A tool may swallow a cancellation, so whoever still runs is told again, but not for ever.
        """
        running: set[asyncio.Task[None]] = {*self._loops, *self._tasks.values()}
        for _ in range(_TELLINGS):
            if not running:
                return
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=_PAUSE)
        log.error("%d threads did not stop when they were told to", len(running))

    async def _claim_loop(self) -> None:
        while True:
            try:
                if not await self._claim():
                    await self._wait()
            except Exception:  # whatever it was, threads would wait for ever if nobody claimed them
                log.exception("no thread could be claimed; it is tried again")
                await self._clock.sleep(_PAUSE)

    async def _claim(self) -> int:
        """Take what is runnable, as far as there is room; returns how many."""
        free = self._at_once - len(self._tasks)
        if free <= 0:
            return 0
        self._freed.clear()
        claims = await self._store.claim(
            self._owner,
            now=self._clock.now(),
            lease=self._lease,
            limit=min(free, 64),
            room={agent: max(most - self._busy[agent], 0) for agent, most in self._per_agent.items()},
            steal=self._steal,
        )
        for claim in claims:
            self._busy[claim.agent] += 1
            self._tasks[claim.thread] = asyncio.create_task(self._drive(claim))
        return len(claims)

    async def _wait(self) -> None:
        full = [agent for agent, most in self._per_agent.items() if self._busy[agent] >= most]
        due = await self._store.next_due(full=full)
        timeout = _IDLE if due is None else min(max(due - self._clock.now(), 0.0), _IDLE)
        if len(self._tasks) >= self._at_once:
            timeout = max(timeout, 0.05)
        await (self._work_or_room(timeout) if full else self._store.work(timeout))
        if self._tasks and (unread := await self._store.unread(self._owner)):
            await self._look(unread)

    async def _work_or_room(self, timeout: float) -> None:
        """Also return when a thread is done: one of the same agent may have waited for its place."""
        work = asyncio.create_task(self._store.work(timeout))
        freed = asyncio.create_task(self._freed.wait())
        try:
            await asyncio.wait((work, freed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            freed.cancel()
            await asyncio.gather(work, freed, return_exceptions=True)

    async def _drive(self, claim: Claim) -> None:
        try:
            await self._run(claim)
        except Exception:
            log.exception("thread %s could not be driven; it is tried again later", claim.thread)
            await self._give_back(claim)
        finally:
            if self._tasks.get(claim.thread) is asyncio.current_task():
                del self._tasks[claim.thread]
            self._busy[claim.agent] -= 1
            self._freed.set()

    async def _give_back(self, claim: Claim) -> None:
        """Only after a while, so that what fails always does not fail all the time; and until the store takes it."""
        while True:
            await self._clock.sleep(self._lease)
            try:
                await self._store.release(claim, runnable_at=self._clock.now())
                return
            except StoreUnavailable as error:
                log.warning("thread %s could not be given back: %s", claim.thread, error)

    async def _renew_loop(self) -> None:
        while True:
            await self._clock.sleep(self._lease / 3)
            if not self._tasks:
                continue
            try:
                until = self._clock.now() + self._lease
                lost = await self._store.renew(self._owner, list(self._tasks), lease_until=until)
            except StoreUnavailable as error:
                log.warning("leases could not be renewed: %s", error)
                continue
            for thread in lost:
                if task := self._tasks.get(thread):
                    task.cancel()
