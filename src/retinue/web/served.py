"""What one server shares among its surfaces: the app, its keys, its limits, its open streams and counters."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from retinue.app.retinue import Retinue
from retinue.app.settings import ServeSettings
from retinue.web.keys import Keyring
from retinue.web.limits import Buckets
from retinue.web.syncing import Syncing

if TYPE_CHECKING:
    from retinue.web.sse import EventStream


@dataclass(slots=True, kw_only=True)
class Served:
    app: Retinue
    settings: ServeSettings
    keyring: Keyring
    limits: Buckets
    """Of keys, and of addresses that show none."""
    syncing: Syncing
    instance: str
    """Names this process among those that have answered requests."""
    streams: "set[EventStream]" = field(default_factory=set["EventStream"])
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Name and labels of a metric → how often."""

    def close(self) -> None:
        """Let nobody wait any longer: streams end with a word on how to go on."""
        self.closing.set()
        for stream in self.streams:
            stream.end()


def served(app: Retinue, settings: ServeSettings) -> Served:
    clock = app.engine.runtime.clock
    return Served(
        app=app,
        settings=settings,
        keyring=Keyring(app.database.keys, clock),
        limits=Buckets(settings.rate, settings.burst),
        syncing=Syncing(app.catalog),
        instance=clock.new_id(),
    )
