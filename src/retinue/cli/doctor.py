"""`retinue doctor`: what is configured, reachable and missing, and how to fix it.

A check is one row of `CHECKS`. It looks and never changes anything but a file it writes
to see whether it can.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import click
import msgspec

from retinue.app.catalog import open_catalog
from retinue.app.project_tools import project_tool_files
from retinue.app.settings import Settings, secret_name
from retinue.cli.command import Told, command
from retinue.cli.here import settings_here
from retinue.cli.output import count, plain
from retinue.registry.catalog import Catalog
from retinue.schema.errors import RetinueError

Status = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    check: str
    status: Status
    message: str
    fix: str | None = None


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks may look at."""

    settings: Settings
    catalog: Catalog
    reachable: tuple[tuple[str, str | None], ...]
    """Each repository, and why its server did not answer."""
    database: tuple[str, ...] | None
    """What is wrong with the database; None when nobody asked."""


Say = tuple[Status, str, str | None]
Check = Callable[[Looked], Iterator[Say]]


@command()
@click.option("--offline", is_flag=True, help="Ask no server.")
@click.option("--verify", is_flag=True, help="Also check every row of the database that derives from a log.")
async def doctor(*, offline: bool, verify: bool) -> Told:
    """Say what is configured, reachable and missing, and how to fix it. Exit 1 when something is broken."""
    try:
        looked = await _look(settings_here(), offline=offline, verify=verify)
    except RetinueError as e:
        findings = [Finding(check="settings", status="error", message=e.message, fix=e.hint)]
    else:
        findings = [
            Finding(check=name, status=status, message=message, fix=fix)
            for name, check in CHECKS
            for status, message, fix in check(looked)
        ]
    return Told(findings, lambda: _print(findings), int(any(f.status == "error" for f in findings)))


def _print(findings: list[Finding]) -> None:
    width = max(len(f.check) for f in findings)
    for finding in findings:
        click.echo(f"{finding.status.ljust(7)}  {finding.check.ljust(width)}  {plain(finding.message)}")
        if finding.fix:
            click.echo(f"{' ' * (width + 11)}→ {plain(finding.fix)}")
    tally = {s: sum(f.status == s for f in findings) for s in ("error", "warning")}
    click.echo(", ".join(count(n, word) for word, n in tally.items()))


async def _look(settings: Settings, *, offline: bool, verify: bool) -> Looked:
    holder = await open_catalog(settings)
    reachable: list[tuple[str, str | None]] = []
    for source in () if offline else holder.repositories:
        try:
            head = await source.mirror.head()
            reachable.append((source.config.name, None if head else f"has no branch {source.config.branch!r}"))
        except RetinueError as e:
            reachable.append((source.config.name, e.message))
    wrong = tuple(await holder.check_database()) if verify else None
    await holder.close()
    return Looked(settings=settings, catalog=holder.current, reachable=tuple(reachable), database=wrong)


def _python(_: Looked) -> Iterator[Say]:
    yield "ok", f"Python {'.'.join(map(str, sys.version_info[:3]))}", None


def _settings(looked: Looked) -> Iterator[Say]:
    for tier in looked.settings.tiers:
        if tier.path is None:
            continue
        if tier.trusted:
            yield "ok", f"{tier.name}: {tier.path}", None
        else:
            fix = f"read it, then: retinue agents trust {tier.path}"
            yield "warning", f"{tier.name}: {tier.path} is not trusted: what it says about power is not used", fix


def _home(looked: Looked) -> Iterator[Say]:
    home = looked.settings.home
    probe = home / f".probe.{os.getpid()}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
        yield "ok", f"{home} can be written", None
    except OSError as e:
        yield "error", f"{home} can't be written: {e.strerror}", "set RETINUE_HOME to a folder of yours"


def _programs(_: Looked) -> Iterator[Say]:
    wanted: tuple[tuple[str, Status, str, str], ...] = (
        ("git", "error", "repositories can't be synced", "install git"),
        ("bwrap", "warning", "commands run without a sandbox", "install bubblewrap"),
        ("rg", "warning", "searching is slower", "install ripgrep, or pip install 'retinue[search]'"),
    )
    for program, status, without, fix in wanted:
        path = shutil.which(program)
        yield ("ok", f"{program}: {path}", None) if path else (status, f"{program} is missing: {without}", fix)


def _providers(looked: Looked) -> Iterator[Say]:
    providers = looked.settings.providers
    if not providers:
        yield "warning", "no provider of models is configured", "add [providers.NAME] to retinue.toml"
    for name, provider in providers.items():
        variable = secret_name(provider.key) if provider.key else None
        if variable and not os.environ.get(variable):
            yield "error", f"{name}: its key is in {variable}, which is not set", f"export {variable}=…"
        else:
            yield "ok", f"{name}: {provider.format}" + (f", key from {variable}" if variable else ", no key"), None


def _repositories(looked: Looked) -> Iterator[Say]:
    for name, error in looked.reachable:
        if error is None:
            yield "ok", f"{name} answers", None
        else:
            yield "error", f"{name}: {error}", f"check the URL, branch and login of {name}"


def _database(looked: Looked) -> Iterator[Say]:
    path = Path(looked.settings.database)
    if "://" in looked.settings.database:
        yield "ok", looked.settings.database.rpartition("@")[2], None
        return
    if path.exists():
        can_write = os.access(path, os.W_OK)
        yield ("ok", str(path), None) if can_write else ("error", f"{path} can't be written", f"chmod u+w {path}")
    else:
        yield "ok", f"{path} is made when it is first needed", None
    for wrong in looked.database or ():
        yield "error", wrong, "restore the database from a copy, or export the threads it still reads"


def _sources(looked: Looked) -> Iterator[Say]:
    for snapshot in looked.catalog.snapshots:
        broken = [e for e in snapshot.entries.values() if e.definition is None]
        untrusted = sum(not e.trusted for e in snapshot.entries.values() if e.definition is not None)
        if snapshot.error is not None:
            yield "warning" if snapshot.stale else "error", f"{snapshot.name}: {snapshot.error}", None
        elif snapshot.entries:
            yield "ok", f"{snapshot.name}: {count(len(snapshot.entries), 'agent')}", None
        for entry in broken:
            yield "warning", f"{snapshot.name}: {entry.location} is broken", f"retinue agents show {entry.id}"
        if untrusted:
            yield "warning", f"{snapshot.name}: {untrusted} untrusted", "read them, then: retinue agents trust"
        for problem in snapshot.problems:
            if problem.code != "no-frontmatter":
                yield "warning", str(problem), None


def _tools(looked: Looked) -> Iterator[Say]:
    for file in project_tool_files(looked.settings.home, looked.settings.root):
        if file.trusted:
            yield "ok", str(file.path), None
        else:
            fix = "read it, then: retinue tools trust"
            yield "warning", f"{file.path} is not trusted: its tools are not loaded", fix


def _default_agent(looked: Looked) -> Iterator[Say]:
    name = looked.settings.default_agent
    try:
        yield "ok", f"{name}, from {looked.catalog.resolve(name).origin}", None
    except RetinueError as e:
        yield "error", f"{name}: {e.message}", e.hint


CHECKS: tuple[tuple[str, Check], ...] = (
    ("python", _python),
    ("home", _home),
    ("settings", _settings),
    ("programs", _programs),
    ("providers", _providers),
    ("repositories", _repositories),
    ("database", _database),
    ("agents", _sources),
    ("tools", _tools),
    ("default agent", _default_agent),
)
