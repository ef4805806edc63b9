"""`retinue agents create | update | delete`: custom agents in the database, with S3's fields and checks."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import click
import msgspec

from retinue.app.settings_file import read_fields
from retinue.cli.here import settings_here
from retinue.cli.output import json_option, print_json
from retinue.ports.records import AgentRecord
from retinue.registry.records import canonical_fields
from retinue.schema.errors import UsageError
from retinue.sources.builtin import builtin_slugs
from retinue.sources.database import CustomAgents
from retinue.storage.sqlite import open_database

_file = click.option(
    "--file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON, YAML or TOML, in S3's spelling or ours.",
)


@click.command
@_file
@click.option("--override", is_flag=True, help="It may replace a built-in agent of its slug.")
@json_option
def create(*, file: Path, override: bool, as_json: bool) -> None:
    """Add a custom agent to the database."""
    fields = _read(file)
    _print("created", _run(lambda agents: agents.create(fields, override=override)), as_json=as_json)


@click.command
@click.argument("name", metavar="[SLUG]", required=False)
@_file
@click.option("--override/--no-override", default=None, help="Whether it may replace a built-in agent.")
@json_option
def update(*, name: str | None, file: Path, override: bool | None, as_json: bool) -> None:
    """Put the fields of a file over those of a custom agent; null takes a field back."""
    fields = _read(file)
    slug = name or _slug(fields, file)
    _print("updated", _run(lambda agents: agents.update(slug, fields, override=override)), as_json=as_json)


@click.command
@click.argument("name", metavar="[SLUG]", required=False)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Take the slug from it.")
@json_option
def delete(*, name: str | None, file: Path | None, as_json: bool) -> None:
    """Remove a custom agent from the database."""
    if name is None and file is None:
        raise UsageError("which agent? give its slug, or --file")
    slug = name or (_slug(_read(file), file) if file is not None else "")
    _print("deleted", _run(lambda agents: agents.delete(slug)), as_json=as_json)


def _run(work: Callable[[CustomAgents], Awaitable[AgentRecord]]) -> AgentRecord:
    async def run() -> AgentRecord:
        path = Path(settings_here().database)
        path.parent.mkdir(parents=True, exist_ok=True)
        database = await open_database(path)
        try:
            agents = CustomAgents(
                database.records, builtin=builtin_slugs(), now=time.time, new_id=lambda: str(uuid.uuid4())
            )
            return await work(agents)
        finally:
            await database.close()

    return asyncio.run(run())


def _read(file: Path) -> Mapping[str, object]:
    return canonical_fields(read_fields(file))


def _slug(fields: Mapping[str, object], file: Path) -> str:
    slug = fields.get("slug")
    if not isinstance(slug, str) or not slug:
        raise UsageError(f"{file} has no Slug, so it is not clear which agent is meant")
    return slug


def _print(done: str, record: AgentRecord, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.to_builtins(record), "is_built_in": False})
    else:
        click.echo(f"{done} {record.slug} ({record.id})")
