"""`retinue memory`: what agents remember across runs."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

import click
import msgspec

from retinue.cli.opening import database_here
from retinue.cli.output import json_option, print_json, seconds_of, table
from retinue.ports.memory import Memory, MemoryItem
from retinue.schema.errors import NotFound
from retinue.schema.ids import DEFAULT_TENANT

_T = TypeVar("_T")


@click.group(no_args_is_help=True)
def memory() -> None:
    """What agents remember across runs. A namespace is an agent's id, or one that agents share."""


@memory.command("list")
@click.argument("namespace", required=False)
@json_option
def list_memory(*, namespace: str | None, as_json: bool) -> None:
    """List what is remembered, of all namespaces or one."""
    items = _with(lambda found: found.list(DEFAULT_TENANT, namespace, now=time.time()))
    if as_json:
        print_json([_json(item) for item in items])
        return
    table(("NAMESPACE", "KEY", "VALUE"), ((i.namespace, i.key, i.value.decode()) for i in items))


@memory.command
@click.argument("namespace")
@click.argument("key")
@json_option
def get(*, namespace: str, key: str, as_json: bool) -> None:
    """Print one value."""
    item = _with(lambda found: found.load(DEFAULT_TENANT, namespace, key, now=time.time()))
    if item is None:
        raise NotFound(f"{namespace} remembers no {key!r}", hint="`retinue memory list` shows what there is")
    if as_json:
        print_json(_json(item))
        return
    value: object = msgspec.json.decode(item.value)
    click.echo(value if isinstance(value, str) else item.value)


@memory.command
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@click.option("--expires", metavar="DURATION", help="Forget it after 30m, 12h or 7d.")
def set(*, namespace: str, key: str, value: str, expires: str | None) -> None:
    """Remember VALUE: JSON, or text where it is none."""
    try:
        data = msgspec.json.encode(msgspec.json.decode(value))
    except msgspec.DecodeError:
        data = msgspec.json.encode(value)
    now = time.time()
    until = now + seconds_of(expires) if expires else None
    item = MemoryItem(namespace=namespace, key=key, value=data, expires=until, updated_at=now)
    _with(lambda found: found.save(DEFAULT_TENANT, item))


@memory.command
@click.argument("namespace")
@click.argument("key")
def delete(*, namespace: str, key: str) -> None:
    """Forget one value."""
    if not _with(lambda found: found.delete(DEFAULT_TENANT, namespace, key)):
        raise NotFound(f"{namespace} remembers no {key!r}", hint="`retinue memory list` shows what there is")


def _with(act: Callable[[Memory], Coroutine[None, None, _T]]) -> _T:
    async def main() -> _T:
        async with database_here() as database:
            return await act(database.memory)

    return asyncio.run(main())


def _json(item: MemoryItem) -> dict[str, object]:
    value: object = msgspec.json.decode(item.value)
    return {**msgspec.structs.asdict(item), "value": value}
