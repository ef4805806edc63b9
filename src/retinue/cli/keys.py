"""`retinue keys`: API keys of this installation."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import click

from retinue.app.clock import SystemClock
from retinue.cli.opening import database_here
from retinue.cli.output import json_option, note, print_json, seconds_of, table
from retinue.ports.keys import ApiKey
from retinue.schema.ids import DEFAULT_TENANT, Tenant
from retinue.web.keys import Keyring
from retinue.web.scopes import SCOPES

_T = TypeVar("_T")


@click.group(no_args_is_help=True)
def keys() -> None:
    """API keys for `retinue serve`."""


@keys.command
@click.option("--name", required=True, help="What it is for.")
@click.option("--scopes", required=True, help=f"With commas: {', '.join(SCOPES)}; memory:* is read and write.")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose data it sees.")
@click.option("--expires", metavar="DURATION", help="30m, 12h or 7d. [default: never]")
@json_option
def create(*, name: str, scopes: str, tenant: str, expires: str | None, as_json: bool) -> None:
    """Make a key and print its token, which is told this once."""
    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    until = SystemClock().now() + seconds_of(expires) if expires else None
    made = _with(lambda ring: ring.create(name, wanted, tenant=tenant, expires=until))
    if as_json:
        print_json({**_json(made.key), "token": made.token})
        return
    click.echo(made.token)
    note(f"key {made.key.id} for {', '.join(made.key.scopes)} of tenant {tenant}; the token is not shown again")


@keys.command("list")
@click.option("--tenant", help="Only this one's.")
@json_option
def list_keys(*, tenant: str | None, as_json: bool) -> None:
    """List all keys, also those that were revoked."""
    found = _with(lambda ring: ring.all(Tenant(tenant) if tenant else None))
    if as_json:
        print_json([_json(key) for key in found])
        return
    table(("KEY", "NAME", "TENANT", "SCOPES", "CREATED", "LAST USED", "STATE"), map(_row, found))


@keys.command
@click.argument("id")
def revoke(*, id: str) -> None:
    """Revoke the key ID at once."""
    _with(lambda ring: ring.revoke(None, id))
    click.echo(f"revoked {id}")


def _with(act: Callable[[Keyring], Awaitable[_T]]) -> _T:
    async def main() -> _T:
        async with database_here() as database:
            return await act(Keyring(database.keys, SystemClock()))

    return asyncio.run(main())


def _json(key: ApiKey) -> dict[str, object]:
    return {name: getattr(key, name) for name in key.__struct_fields__ if name != "digest"}


def _row(key: ApiKey) -> tuple[str, ...]:
    state = "revoked" if key.revoked_at else "good"
    if key.expires is not None and not key.revoked_at:
        state = f"until {_when(key.expires)}" if key.expires > SystemClock().now() else "expired"
    used = _when(key.used_at) if key.used_at else "-"
    return (key.id, key.name, key.tenant, ",".join(key.scopes), _when(key.created_at), used, state)


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
