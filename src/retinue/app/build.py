"""The composition root: what one process opens and closes together, and who drives.

What comes from a project's settings is `retinue.app.projects`.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retinue.app.clock import SystemClock
from retinue.app.projects import Common, Given, Project, Projects
from retinue.app.seal import Seal
from retinue.app.settings import Settings
from retinue.app.settings_file import load_settings
from retinue.dispatch.local import LocalDispatcher
from retinue.ports.clock import Clock
from retinue.ports.store import Store
from retinue.runtime.engine import Engine
from retinue.runtime.live import Tap
from retinue.schema.errors import SettingsError
from retinue.storage.lock import DriverLock
from retinue.storage.sqlite import Database, open_database


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a caller of `Retinue` chose; everything else comes from settings."""

    given: Given
    data_dir: Path | None = None
    settings: Settings | None = None
    clock: Clock | None = None
    drive: bool = True
    wrap_store: Callable[[Store], Store] = lambda store: store


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    database: Database
    own: Project
    projects: Projects
    engine: Engine
    dispatcher: LocalDispatcher
    lock: DriverLock
    takeover: asyncio.Task[None] | None

    async def close(self) -> None:
        if self.takeover is not None:
            self.takeover.cancel()
        self.engine.runtime.live.close()
        await self.dispatcher.stop()
        await self.projects.close()
        await self.database.close()
        self.lock.release()


async def build(parts: Parts) -> Built:
    settings = parts.settings or load_settings(environ=parts.given.environ)
    data = parts.data_dir or Path(settings.database).parent
    data.mkdir(parents=True, exist_ok=True)
    clock = parts.clock or SystemClock()
    database = await open_database(data / Path(settings.database).name, clock=clock)
    common = Common(
        given=parts.given,
        data=data,
        database=database,
        store=parts.wrap_store(database.store),
        clock=clock,
        seal=Seal(data / "secret.key"),
    )
    projects = Projects(common)
    own = await projects.open_own(settings)
    if settings.telemetry.enabled:
        common.live.taps.append(_telemetry(settings, own.runtime.redact))
    engine, tuning = Engine(own.runtime), own.runtime.tuning
    engine.drives = parts.drive
    dispatcher = LocalDispatcher(
        common.store,
        clock,
        owner=f"{os.getpid()}-{clock.new_id()[:8]}",
        run=engine.run,
        look=engine.look,
        lease=tuning.lease,
        at_once=tuning.threads_at_once,
        per_agent=tuning.per_agent,
    )
    lock = DriverLock(data / "driver.lock")
    return Built(
        database=database,
        own=own,
        projects=projects,
        engine=engine,
        dispatcher=dispatcher,
        lock=lock,
        takeover=_drive(engine, dispatcher, lock) if parts.drive else None,
    )


def _drive(engine: Engine, dispatcher: LocalDispatcher, lock: DriverLock) -> asyncio.Task[None] | None:
    """Drive at once if nobody does; else take over when whoever does is gone."""
    if lock.try_acquire():
        dispatcher.start()
        return None
    engine.drives = False

    async def take_over() -> None:
        if await lock.wait():
            engine.drives = True
            dispatcher.start()

    return asyncio.create_task(take_over())


def _telemetry(settings: Settings, redact: Callable[[str], str]) -> Tap:
    try:
        from retinue.app.telemetry import telemetry
    except ImportError as error:
        hint = "pip install 'retinue[telemetry]', and the SDK that exports"
        raise SettingsError(f"telemetry is on and {error.name} is not installed", hint=hint) from error
    return telemetry(content=settings.telemetry.content, redact=redact)
