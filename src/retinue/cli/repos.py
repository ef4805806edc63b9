"""`retinue repos`: the git repositories that agents come from."""

import asyncio
import contextlib
import shutil
import time
from pathlib import Path

import click

from retinue.app.catalog import CatalogHolder, Synced, mirror_folder, open_catalog
from retinue.app.repositories import add_repository, described, remove_repository, status_of
from retinue.app.settings import Settings
from retinue.cli.command import Told, group
from retinue.cli.here import settings_here
from retinue.cli.output import Progress, count, duration, note, plain, table
from retinue.registry.changes import Summary, diff
from retinue.schema.agent import Json
from retinue.schema.errors import UsageError
from retinue.sources.repository import RepositoryConfig, parse_repository, remote


@group()
def repos() -> None:
    """Git repositories that agents come from."""


@repos.command
@click.argument("url")
@click.option("--name", help="Its name, and the prefix of its agents unless --root. [default: from the URL]")
@click.option("--branch", "branch", default="main", show_default=True)
@click.option("--root", "isRoot", is_flag=True, help="Its agents have no prefix.")
@click.option(
    "--interval", "syncInterval", default="5m", show_default=True, help="How often it is synced: 30s, 5m, 1h."
)
@click.option(
    "--auth",
    "authType",
    type=click.Choice(["ssh-key", "token", "none"]),
    help="How to log in. [default: from the rest]",
)
@click.option("--token", "authToken", metavar="env(NAME)", help="The variable that holds the token.")
@click.option("--ssh-key", "sshKeyPath", metavar="PATH", help="The private key to use.")
@click.option("--webhook-secret", "webhookSecret", metavar="env(NAME)", help="The variable that holds its secret.")
@click.option("--inactive", is_flag=True, help="Neither sync nor use it yet.")
@click.option("--read-only", "readOnly", is_flag=True, help="No command may write or push to it.")
def add(*, url: str, name: str | None, inactive: bool, **options: object) -> Told:
    """Add the repository at URL to your configuration."""
    is_path = Path(url).exists()
    fields: dict[str, object] = {
        "name": name or url.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git"),
        "gitUrl": str(Path(url).absolute()) if is_path else url,
        "isActive": not inactive,
        **{field: value for field, value in options.items() if value is not None},
    }
    config = _checked(fields)
    is_local = is_path or remote(config, allow_local=True).transport in ("file", "http")
    path = add_repository(settings_here(), fields, local=is_local)

    def text() -> None:
        click.echo(f"added {config.name} to {path}")
        if is_local:
            note("it is on this machine, so local repositories are allowed from now on")
        click.echo(f"next: retinue repos sync {config.name}")

    return Told(fields, text)


@repos.command("list")
def list_repositories() -> Told:
    """List what is configured."""
    settings = settings_here()
    rows = [described(settings, repository) for repository in settings.repositories]
    headers = ("NAME", "URL", "BRANCH", "PREFIX", "STATE", "CONFIGURED IN")
    keys = ("name", "gitUrl", "branch", "prefix", "state", "origin")
    return Told(rows, lambda: table(headers, ([str(r[k]) for k in keys] for r in rows)))


@repos.command
async def status() -> Told:
    """Show what the last sync of each repository came to. Exit 1 when one is unavailable or stale."""
    holder = await open_catalog(settings_here())
    await holder.close()
    rows = status_of(holder)
    keys = ("name", "state", "commit", "checked", "agents", "problems", "error")
    failed = any(r["state"] in ("unavailable", "stale", "misconfigured") for r in rows)
    headers = [k.upper() for k in keys]
    return Told(rows, lambda: table(headers, ([_cell(k, r[k]) for k in keys] for r in rows)), int(failed))


@repos.command
@click.argument("name", required=False)
async def sync(*, name: str | None) -> Told:
    """Ask the servers for changes, of all repositories or of NAME, and say what is new, changed and gone."""
    synced, summary = await _sync(settings_here(), name)

    def text() -> None:
        for one in synced:
            said = one.error or f"{(one.commit or '')[:12]} {'updated' if one.changed else 'unchanged'}"
            click.echo(f"{one.repository}: {plain(said)}")
        note(f"{count(len(synced), 'repository', 'repositories')}: {summary}")
        if not synced:
            note("add one: retinue repos add URL")

    failed = any(one.error for one in synced)
    return Told({"repositories": synced, "summary": summary}, text, int(failed))


@repos.command
@click.argument("name")
def remove(*, name: str) -> Told:
    """Forget a repository that was added here, and delete its mirror."""
    settings = settings_here()
    path = remove_repository(settings, name)
    shutil.rmtree(mirror_folder(settings, name), ignore_errors=True)
    return Told({"name": name, "removed": True}, f"removed {name} from {path}")


def _checked(fields: Json) -> RepositoryConfig:
    config, problems = parse_repository(fields, origin="command line")
    said = [f"{problem.message}" + (f"; {problem.hint}" if problem.hint else "") for problem in problems]
    if config is None:
        raise UsageError("; ".join(said), hint="nothing was added")
    for warning in said:
        note(f"warning: {warning}")
    return config


async def _sync(settings: Settings, name: str | None) -> tuple[tuple[Synced, ...], Summary]:
    with Progress(100, "syncing") as bar:
        holder = await open_catalog(settings, progress=bar.part)
        ticker = asyncio.create_task(_tick(bar))
        before = holder.current
        try:
            synced = await holder.sync(name)
        finally:
            ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticker
            await holder.close()
    _warn(holder)
    return synced, diff(before, holder.current)


async def _tick(bar: Progress) -> None:
    while True:
        bar.step(0)
        await asyncio.sleep(0.2)


def _warn(holder: CatalogHolder) -> None:
    for snapshot in holder.current.snapshots:
        if snapshot.kind == "git" and snapshot.error and not snapshot.stale:
            note(f"{snapshot.name}: {snapshot.error}")


def _cell(key: str, value: object) -> str:
    if value is None:
        return ""
    if key == "checked" and isinstance(value, float):
        return f"{duration(time.time() - value)} ago"
    return str(value)[:12] if key == "commit" else str(value)
