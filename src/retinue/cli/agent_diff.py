"""`retinue agents diff`, and an agent's text as it was written, wherever it lives."""

import asyncio
import os
import subprocess
from pathlib import Path

import click
import msgspec

from retinue.app.catalog import mirror_folder
from retinue.app.settings import Settings
from retinue.cli.agent_files import unified
from retinue.cli.command import Told, command
from retinue.cli.here import catalog_here, settings_here
from retinue.registry.catalog import Found
from retinue.schema.errors import GitError, NotFound, UsageError
from retinue.sources.mirror import Mirror
from retinue.sources.repository import parse_repository


@command()
@click.argument("name", metavar="ID")
@click.argument("old", metavar="REV1")
@click.argument("new", metavar="[REV2]", required=False)
def diff(*, name: str, old: str, new: str | None) -> Told:
    """Show how agent ID differs between two revisions: commits, branches, tags or HEAD~1.

    Without REV2, between REV1 and what is in use now.
    """
    settings = settings_here()
    found = catalog_here(settings).match(name).found
    before = bytes_at(settings, found, old)
    after = raw_bytes(settings, found) if new is None else bytes_at(settings, found, new)
    changes = unified(before, after, f"{old}:{found.address}", f"{new or 'now'}:{found.address}")
    value = {"id": found.address, "old": old, "new": new, "changed": bool(changes), "diff": changes}
    return Told(value, lambda: click.echo(changes, nl=False))


def raw_bytes(settings: Settings, found: Found) -> bytes:
    """What `found` was read from; for a row or a value of Python, its fields as JSON."""
    if found.snapshot.kind == "git":
        return bytes_at(settings, found, found.snapshot.commit or "HEAD")
    path = Path(found.entry.location)
    if found.snapshot.kind in ("project", "user", "builtin") and path.is_file():
        return path.read_bytes()
    if found.entry.definition is None:
        raise NotFound(f"{found} has no text that can be shown")
    return msgspec.json.format(msgspec.json.encode(found.entry.definition), indent=2) + b"\n"


def bytes_at(settings: Settings, found: Found, revision: str) -> bytes:
    """The file that `found` was at a revision of its repository."""
    if found.snapshot.kind == "git":
        return asyncio.run(_mirrored(settings, found, revision))
    if found.snapshot.kind not in ("project", "user"):
        raise UsageError(f"{found} has no revisions: it is not in a git repository")
    return _committed(Path(found.entry.location).absolute(), revision)


async def _mirrored(settings: Settings, found: Found, revision: str) -> bytes:
    for repository in settings.repositories:
        config, _ = parse_repository(repository.fields, origin=repository.origin)
        if config is not None and config.name == found.snapshot.repository:
            folder = mirror_folder(settings, config.name)
            mirror = Mirror(config, folder, os.environ, allow_local=settings.local_repositories)
            path = found.entry.location.removeprefix(config.name)[1:]
            return await mirror.show(await mirror.resolve(revision), path)
    raise NotFound(f"the repository {found.snapshot.repository!r} is not configured any more")


def _committed(path: Path, revision: str) -> bytes:
    """A file of a working copy at a revision; `cat-file` runs none of the repository's own programs."""
    if revision.startswith("-") or ":" in revision:
        raise UsageError(f"{revision!r} is not a revision; wanted a commit, a branch, a tag or HEAD~1")
    command = ["git", "-C", str(path.parent), "cat-file", "blob", f"{revision}:./{path.name}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        raise GitError("git is not installed", hint="install git") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise NotFound(f"there is no {path.name} at {revision!r}: {said}")
    return done.stdout
