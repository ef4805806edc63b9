"""`retinue memory`: what agents remember across runs."""

import time

import click
import msgspec

from retinue.cli.command import Told, group
from retinue.cli.opening import database_here
from retinue.cli.output import seconds_of, table
from retinue.ports.memory import MemoryItem
from retinue.schema.errors import NotFound
from retinue.schema.ids import DEFAULT_TENANT


@group()
def memory() -> None:
    """What agents remember across runs. A namespace is an agent's id, or one that agents share."""


@memory.command("list")
@click.argument("namespace", required=False)
async def list_memory(*, namespace: str | None) -> Told:
    """List what is remembered, of all namespaces or one."""
    async with database_here() as database:
        items = await database.memory.list(DEFAULT_TENANT, namespace, now=time.time())
    rows = [(item.namespace, item.key, item.value.decode()) for item in items]
    return Told([_json(item) for item in items], lambda: table(("NAMESPACE", "KEY", "VALUE"), rows))


@memory.command
@click.argument("namespace")
@click.argument("key")
async def get(*, namespace: str, key: str) -> Told:
    """Print one value."""
    async with database_here() as database:
        item = await database.memory.load(DEFAULT_TENANT, namespace, key, now=time.time())
    if item is None:
        raise _unknown(namespace, key)
    value: object = msgspec.json.decode(item.value)
    return Told(_json(item), lambda: click.echo(value if isinstance(value, str) else item.value))


@memory.command
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@click.option("--expires", metavar="DURATION", help="Forget it after 30m, 12h or 7d.")
async def set(*, namespace: str, key: str, value: str, expires: str | None) -> Told:
    """Remember VALUE: JSON, or text where it is none."""
    try:
        data = msgspec.json.encode(msgspec.json.decode(value))
    except msgspec.DecodeError:
        data = msgspec.json.encode(value)
    now = time.time()
    until = now + seconds_of(expires) if expires is not None else None
    item = MemoryItem(namespace=namespace, key=key, value=data, expires=until, updated_at=now)
    async with database_here() as database:
        await database.memory.save(DEFAULT_TENANT, item)
    return Told(_json(item))


@memory.command
@click.argument("namespace")
@click.argument("key")
async def delete(*, namespace: str, key: str) -> Told:
    """Forget one value."""
    async with database_here() as database:
        if not await database.memory.delete(DEFAULT_TENANT, namespace, key):
            raise _unknown(namespace, key)
    return Told({"namespace": namespace, "key": key, "deleted": True})


def _unknown(namespace: str, key: str) -> NotFound:
    return NotFound(f"{namespace} remembers no {key!r}", hint="`retinue memory list` shows what there is")


def _json(item: MemoryItem) -> dict[str, object]:
    value: object = msgspec.json.decode(item.value)
    return {**msgspec.structs.asdict(item), "value": value}
