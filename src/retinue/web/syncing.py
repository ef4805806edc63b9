"""Syncs that others ask for, a webhook or a person: however many ask, one runs and at most one more follows."""

import asyncio
import logging
from collections.abc import Sequence

from retinue.app.catalog import CatalogHolder, Synced
from retinue.schema.errors import RetinueError

log = logging.getLogger("retinue.web")


class Syncing:
    def __init__(self, catalog: CatalogHolder) -> None:
        self._catalog = catalog
        self._running: dict[str, asyncio.Task[Sequence[Synced]]] = {}
        self._next: dict[str, asyncio.Task[Sequence[Synced]]] = {}
        self.count = 0
        """Syncs that were begun."""

    def ask(self, repository: str) -> asyncio.Task[Sequence[Synced]]:
        """A sync that begins after this moment, so that it sees what was pushed before it."""
        if waiting := self._next.get(repository):
            return waiting
        before = self._running.get(repository)
        task = asyncio.create_task(self._sync(repository, before))
        task.add_done_callback(_retrieve)
        if before is None:
            self._running[repository] = task
        else:
            self._next[repository] = task
        return task

    async def close(self) -> None:
        tasks = [*self._running.values(), *self._next.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sync(self, repository: str, before: "asyncio.Task[Sequence[Synced]] | None") -> Sequence[Synced]:
        if before is not None:
            await asyncio.wait((before,))
            self._running[repository] = self._next.pop(repository)
        self.count += 1
        try:
            return await self._catalog.sync(repository)
        finally:
            if self._running.get(repository) is asyncio.current_task():
                del self._running[repository]


def _retrieve(task: "asyncio.Task[Sequence[Synced]]") -> None:
    """Nobody may be waiting: what went wrong is told in the log and by the repository's status."""
    if not task.cancelled() and (error := task.exception()) is not None:
        known = isinstance(error, RetinueError)
        log.warning("a sync failed: %s", error, exc_info=None if known else error)
