"""`retinue agents trust`: a person has read these agents and lets them run."""

from pathlib import Path

import click

from retinue.app.folders import project_folders
from retinue.app.settings import Settings
from retinue.app.trust import distrust
from retinue.app.trust import trust as remember
from retinue.cli.command import Told, command
from retinue.cli.here import catalog_here, settings_here
from retinue.cli.output import count, note, plain, table
from retinue.registry.catalog import Found
from retinue.schema.errors import UsageError


@command()
@click.argument("target", metavar="[PATH|AGENT]", required=False)
@click.option("--revoke", is_flag=True, help="Take the trust back.")
def trust(*, target: str | None, revoke: bool) -> Told:
    """Trust every agent of this project's folders and its settings file, or only PATH or AGENT.

    What is trusted is the content: an agent whose file changes is untrusted again.
    """
    settings = settings_here()
    chosen = _chosen(settings, target)
    with_settings = _names_settings(settings, target)
    if not chosen and not with_settings:
        note("there is nothing to trust here: no agent in a project folder, no settings file")
    folders = dict(project_folders(settings))
    for found in chosen:
        _write(settings, folders[found.snapshot.name], found.entry.id, found.entry.hash, revoke=revoke)
    if with_settings and settings.project.path is not None:
        _write(settings, settings.root, settings.project.path.name, settings.project.hash, revoke=revoke)
    rows = [(f.address, f.entry.location, f.entry.hash[:12]) for f in chosen]
    if with_settings and settings.project.path is not None:
        rows.append(("(settings)", str(settings.project.path), settings.project.hash[:12]))

    def text() -> None:
        if rows:
            table(("AGENT", "FILE", "HASH"), rows)
            note(f"{'no longer trusted' if revoke else 'trusted'}: {count(len(rows), 'file')}")

    return Told([{"id": id, "location": at, "hash": hash, "trusted": not revoke} for id, at, hash in rows], text)


def _write(settings: Settings, folder: Path, id: str, hash: str, *, revoke: bool) -> None:
    if revoke:
        distrust(settings.home, folder, [id])
    else:
        remember(settings.home, folder, {id: hash})


def _chosen(settings: Settings, target: str | None) -> list[Found]:
    catalog = catalog_here(settings)
    candidates = [w.found for w in catalog.entries() if w.found.snapshot.kind == "project"]
    usable = [f for f in candidates if f.entry.definition is not None]
    for found in candidates:
        if found not in usable and target is None:
            note(f"{plain(str(found))} is broken and can't be trusted")
    if target is None:
        return usable
    path = Path(target).absolute()
    if path.exists():
        below = [f for f in usable if Path(f.entry.location).absolute().is_relative_to(path)]
        if not below and not _names_settings(settings, target):
            raise UsageError(f"{target} holds no agent of this project's folders")
        return below
    found = catalog.match(target).found
    if found.snapshot.kind != "project":
        raise UsageError(f"{found} needs no trust: only project folders do")
    return [found]


def _names_settings(settings: Settings, target: str | None) -> bool:
    if settings.project.path is None:
        return False
    return target is None or Path(target).absolute() in (settings.project.path, settings.root)
