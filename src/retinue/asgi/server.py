"""Serves an app on a socket until it is told to stop; what is open then ends with a word, not with a cut."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Generator

import uvicorn

from retinue.app.retinue import Retinue
from retinue.app.settings import ServeSettings
from retinue.asgi.app import create
from retinue.asgi.protocol import bounded
from retinue.registry.changes import Summary
from retinue.schema.errors import SettingsError
from retinue.schema.ids import DEFAULT_TENANT
from retinue.web.guard import LOOPBACK
from retinue.web.served import Served, served

log = logging.getLogger("retinue.web")
_GRACE_SECONDS = 10
_BACKLOG = 2048
_LOOKS_EVERY = 0.5


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections already, so that its port is known before anything is served.

    Raises:
        SettingsError: nobody can listen there.
    """
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
        )
    except OSError as e:
        hint = "choose another --port, or stop who has it"
        raise SettingsError(f"{host}:{port} can't be listened on: {e.strerror or e}", hint=hint) from e


def is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.asynccontextmanager
async def open_served(app: Retinue, settings: ServeSettings) -> AsyncGenerator[Served]:
    """What is served, with a catalog that follows its sources."""
    made = served(app, settings)
    watching = [asyncio.create_task(watch) for watch in (app.catalog.watch(_told), _watch_records(app))]
    for task in watching:
        task.add_done_callback(_ended)
    try:
        yield made
    finally:
        made.close()
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await made.syncing.close()


async def _watch_records(app: Retinue) -> None:
    """Custom agents that a command made beside us are in the catalog within a second, too."""
    known = await app.database.records.all(DEFAULT_TENANT)
    while True:
        await asyncio.sleep(_LOOKS_EVERY)
        found = await app.database.records.all(DEFAULT_TENANT)
        if found != known:
            known = found
            _told(await app.catalog.reload(["database"]))


class Server(uvicorn.Server):
    """Uvicorn, which waits for connections to end before it stops: streams are told to."""

    def __init__(self, made: Served) -> None:
        super().__init__(
            uvicorn.Config(
                create(made),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=_GRACE_SECONDS,
                http=bounded(made.settings.request_seconds),
            )
        )
        self._served = made

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Uvicorn would raise the signal again when it is done, and nothing of ours would be closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._served.close()
        await super().shutdown(sockets)


def _told(summary: Summary) -> None:
    log.info("agents: %s", summary)


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("agents are no longer followed as they change", exc_info=error)
