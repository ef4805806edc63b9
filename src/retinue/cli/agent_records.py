"""`retinue agents create | update | delete`: custom agents in the database, with S3's fields and checks."""

import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec

from retinue.app.settings_file import read_fields
from retinue.cli.command import Told, command
from retinue.cli.opening import database_here
from retinue.ports.records import AgentRecord
from retinue.registry.records import canonical_fields
from retinue.schema.errors import UsageError
from retinue.sources.builtin import builtin_slugs
from retinue.sources.database import CustomAgents

_file = click.option(
    "--file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON, YAML or TOML, in S3's spelling or ours.",
)


@command()
@_file
@click.option("--override", is_flag=True, help="It may replace a built-in agent of its slug.")
async def create(*, file: Path, override: bool) -> Told:
    """Add a custom agent to the database."""
    async with _agents() as agents:
        return _told("created", await agents.create(_read(file), override=override))


@command()
@click.argument("name", metavar="[SLUG]", required=False)
@_file
@click.option("--override/--no-override", default=None, help="Whether it may replace a built-in agent.")
async def update(*, name: str | None, file: Path, override: bool | None) -> Told:
    """Put the fields of a file over those of a custom agent; null takes a field back."""
    fields = _read(file)
    async with _agents() as agents:
        return _told("updated", await agents.update(name or _slug(fields, file), fields, override=override))


@command()
@click.argument("name", metavar="[SLUG]", required=False)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Take the slug from it.")
async def delete(*, name: str | None, file: Path | None) -> Told:
    """Remove a custom agent from the database."""
    slug = name or (_slug(_read(file), file) if file is not None else None)
    if slug is None:
        raise UsageError("which agent? give its slug, or --file")
    async with _agents() as agents:
        return _told("deleted", await agents.delete(slug))


@asynccontextmanager
async def _agents() -> AsyncGenerator[CustomAgents]:
    async with database_here() as database:
        yield CustomAgents(database.records, builtin=builtin_slugs(), now=time.time, new_id=lambda: str(uuid.uuid4()))


def _read(file: Path) -> Mapping[str, object]:
    return canonical_fields(read_fields(file))


def _slug(fields: Mapping[str, object], file: Path) -> str:
    slug = fields.get("slug")
    if not isinstance(slug, str) or not slug:
        raise UsageError(f"{file} has no Slug, so it is not clear which agent is meant")
    return slug


def _told(done: str, record: AgentRecord) -> Told:
    return Told({**msgspec.to_builtins(record), "is_built_in": False}, f"{done} {record.slug} ({record.id})")
