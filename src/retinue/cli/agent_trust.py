"""`retinue agents trust`: a person has read these agents and lets them run."""

from pathlib import Path
from typing import NamedTuple

import click

from retinue.app.folders import project_folders, unread
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
    folders = dict(project_folders(settings))
    marks = [
        _Mark(folders[f.snapshot.name], f.entry.id, f.entry.hash, f.address, f.entry.location)
        for f in _chosen(settings, target)
    ]
    if (path := settings.project.path) and _names_settings(settings, target):
        marks.append(_Mark(settings.root, path.name, settings.project.hash, "(settings)", str(path)))
    for mark in marks:
        if revoke:
            distrust(settings.home, mark.folder, [mark.id])
        else:
            remember(settings.home, mark.folder, {mark.id: mark.hash})

    def text() -> None:
        if not marks:
            note("there is nothing to trust here: no agent in a project folder, no settings file")
            if hint := unread(settings):
                note(hint)
            return
        table(("AGENT", "FILE", "HASH"), ((m.name, m.location, m.hash[:12]) for m in marks))
        note(f"{'no longer trusted' if revoke else 'trusted'}: {count(len(marks), 'file')}")

    rows = [{"id": m.name, "location": m.location, "hash": m.hash[:12], "trusted": not revoke} for m in marks]
    return Told(rows, text)


class _Mark(NamedTuple):
    """What is trusted: the content of one file, as the trust file names it and as people see it."""

    folder: Path
    id: str
    hash: str
    name: str
    location: str


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
