"""`retinue keys`: API keys of this installation."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import click

from retinue.app.clock import SystemClock
from retinue.cli.command import Told, group
from retinue.cli.opening import database_here
from retinue.cli.output import note, seconds_of, table, when
from retinue.ports.keys import ApiKey
from retinue.schema.ids import DEFAULT_TENANT, Tenant
from retinue.web.keys import Keyring
from retinue.web.scopes import SCOPES


@group()
def keys() -> None:
    """API keys for `retinue serve`."""


@keys.command
@click.option("--name", required=True, help="What it is for.")
@click.option("--scopes", required=True, help=f"With commas: {', '.join(SCOPES)}; memory:* is read and write.")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose data it sees.")
@click.option("--expires", metavar="DURATION", help="30m, 12h or 7d. [default: never]")
async def create(*, name: str, scopes: str, tenant: str, expires: str | None) -> Told:
    """Make a key and print its token, which is told this once."""
    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    until = SystemClock().now() + seconds_of(expires) if expires is not None else None
    async with _keyring() as ring:
        made = await ring.create(name, wanted, tenant=tenant, expires=until)

    def text() -> None:
        click.echo(made.token)
        note(f"key {made.key.id} for {', '.join(made.key.scopes)} of tenant {tenant}; the token is not shown again")

    return Told({**_json(made.key), "token": made.token}, text)


@keys.command("list")
@click.option("--tenant", help="Only this one's.")
async def list_keys(*, tenant: str | None) -> Told:
    """List all keys, also those that were revoked."""
    async with _keyring() as ring:
        found = await ring.all(Tenant(tenant) if tenant else None)
    headers = ("KEY", "NAME", "TENANT", "SCOPES", "CREATED", "LAST USED", "STATE")
    return Told([_json(key) for key in found], lambda: table(headers, map(_row, found)))


@keys.command
@click.argument("id")
async def revoke(*, id: str) -> Told:
    """Revoke the key ID at once."""
    async with _keyring() as ring:
        await ring.revoke(None, id)
    return Told({"id": id, "revoked": True}, f"revoked {id}")


@asynccontextmanager
async def _keyring() -> AsyncGenerator[Keyring]:
    async with database_here() as database:
        yield Keyring(database.keys, SystemClock())


def _json(key: ApiKey) -> dict[str, object]:
    return {name: getattr(key, name) for name in key.__struct_fields__ if name != "digest"}


def _row(key: ApiKey) -> tuple[str, ...]:
    state = "revoked" if key.revoked_at else "good"
    if key.expires is not None and not key.revoked_at:
        state = f"until {when(key.expires)}" if key.expires > SystemClock().now() else "expired"
    used = when(key.used_at) if key.used_at else "-"
    return (key.id, key.name, key.tenant, ",".join(key.scopes), when(key.created_at), used, state)
