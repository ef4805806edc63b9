"""What one server shares among its surfaces: the app, its keys, its limits, its open streams and counters."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from retinue.app.retinue import Retinue
from retinue.app.settings import ServeSettings
from retinue.runtime.state import State
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.steps import ModelAnswered
from retinue.schema.events.union import AnyEvent
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

    def count(self, _: State, events: Sequence[AnyEvent]) -> None:
        """A tap: runs and tokens, for the metrics."""
        for event in events:
            if isinstance(event, RunCompleted | RunFailed):
                self.counters["runs_total", f'status="{event.completion.status}"'] += 1
            elif isinstance(event, ModelAnswered):
                self.counters["tokens_total", 'kind="input"'] += event.usage.input
                self.counters["tokens_total", 'kind="output"'] += event.usage.output


def served(app: Retinue, settings: ServeSettings) -> Served:
    runtime = app.engine.runtime
    made = Served(
        app=app,
        settings=settings,
        keyring=Keyring(app.database.keys, runtime.clock),
        limits=Buckets(settings.rate, settings.burst),
        syncing=Syncing(app.catalog),
        instance=runtime.clock.new_id(),
    )
    runtime.live.taps.append(made.count)
    return made
