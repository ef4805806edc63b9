"""`retinue serve`: the agents as a service."""

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from retinue.app.settings import ServeSettings, Settings, Tier
from retinue.app.settings_file import load_settings, read_settings
from retinue.cli.command import command, wants_json
from retinue.cli.output import note, print_json_line
from retinue.schema.errors import SettingsError

if TYPE_CHECKING:
    import socket


@command()
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="0 takes a free one. [default: 8420]")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Settings in place of the user's."
)
@click.option("--verbose", is_flag=True, help="Also say what is asked and what changes.")
async def serve(*, host: str | None, port: int | None, config: Path | None, verbose: bool) -> None:
    """Serve the agents over HTTP until told to stop.

    On the first start it makes a key and prints its token, once. Without a key it listens on this machine only.
    """
    if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
        raise SettingsError(f"serving needs {' and '.join(missing)}", hint="pip install 'retinue[serve]'")
    settings = load_settings()
    if config is not None:
        tier = Tier(name="user", path=config, settings=read_settings(config))
        settings = msgspec.structs.replace(settings, user=tier)
    wished = {"host": host, "port": port}
    serving = msgspec.structs.replace(settings.serve, **{k: v for k, v in wished.items() if v is not None})
    # On asyncio's own loop: uvloop accepts one connection a turn, and under load clients wait for seconds to get in.
    await _serve(settings, serving, verbose=verbose)


async def _serve(settings: Settings, serving: ServeSettings, *, verbose: bool) -> None:
    from retinue.app.retinue import Retinue
    from retinue.asgi.server import Server, is_loopback, listen, open_served

    async with Retinue(settings=settings) as app:
        _log_to_stderr(app.engine.runtime.redact, verbose=verbose)
        async with open_served(app, serving) as served:
            if not is_loopback(serving.host) and not await served.keyring.any_good():
                raise SettingsError(
                    f"there is no API key, so nobody is served on {serving.host}",
                    hint="retinue keys create --name first --scopes admin, or listen on 127.0.0.1",
                )
            bound = listen(serving.host, serving.port)
            made = await served.keyring.first()
            if wants_json():
                print_json_line({"url": _url(bound), "token": made.token if made else None})
            else:
                click.echo(f"serving on {_url(bound)} (API: {_url(bound)}/docs)")
                if made is not None:
                    click.echo(f"token, shown this once: {made.token}")
            if not app.engine.drives:
                note("another process drives the threads of this data folder; this one takes over when it ends")
            sys.stdout.flush()
            await Server(served).serve([bound])


def _url(bound: "socket.socket") -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Redacting(logging.Formatter):
    """Whatever is logged, the secrets of the settings are not."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(name)s %(levelname)s %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def _log_to_stderr(redact: Callable[[str], str], *, verbose: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting(redact))
    logging.basicConfig(handlers=[handler], level=logging.INFO if verbose else logging.WARNING)
