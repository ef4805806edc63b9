"""Opens what commands work on: the whole app, or only its database; and what is logged meanwhile."""

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.app.settings import Settings
from retinue.cli.here import settings_here
from retinue.schema.errors import SettingsError

if TYPE_CHECKING:
    from retinue.app.retinue import Retinue
    from retinue.storage.sqlite import Database


@asynccontextmanager
async def opened(
    settings: Settings | None = None, *, drive: bool, workspace: Path | None = None
) -> "AsyncGenerator[Retinue]":
    from retinue.app.retinue import Retinue

    settings = settings or settings_here()
    log_to_file(settings)
    async with Retinue(settings=settings, workspace=workspace, drive=drive) as app:
        app.engine.drives = app.engine.drives and drive
        yield app


@asynccontextmanager
async def database_here() -> "AsyncGenerator[Database]":
    from retinue.storage.sqlite import open_database

    settings = settings_here()
    data_folder(settings)
    database = await open_database(Path(settings.database))
    try:
        yield database
    finally:
        await database.close()


def data_folder(settings: Settings) -> Path:
    """Where the database and the log are; it is there afterwards."""
    folder = Path(settings.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise SettingsError(
            f"{folder} can't be made: {e.strerror}", hint="set RETINUE_HOME to a folder of yours"
        ) from e
    return folder


def log_to_file(settings: Settings) -> None:
    """Details of failures go to the data folder's log; `RETINUE_DEBUG=1` shows them at once."""
    if os.environ.get("RETINUE_DEBUG") == "1":
        logging.basicConfig(level=logging.INFO)
        return
    file = logging.FileHandler(data_folder(settings) / "retinue.log", delay=True)
    form = "%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"
    logging.basicConfig(handlers=[file], level=logging.WARNING, format=form)
