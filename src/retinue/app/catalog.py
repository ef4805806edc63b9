"""Makes the sources that the settings name, and keeps the catalog that they add up to.

The only place that knows every kind of source. A catalog is replaced whole: whoever
holds the old one goes on with it.
"""

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from retinue.app.folders import folder_sources
from retinue.app.settings import Settings, SettingsFile
from retinue.app.trust import Trusted, read_trust
from retinue.ports.records import AgentRecords
from retinue.ports.source import Snapshot, Source, SourceKind
from retinue.registry.catalog import Catalog
from retinue.registry.changes import Summary, diff
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import GitError, NotFound, RetinueError
from retinue.schema.ids import DEFAULT_TENANT, Tenant
from retinue.schema.problem import Problem
from retinue.sources.builtin import BuiltinSource
from retinue.sources.configuration import ConfigurationSource, ConfiguredAgents
from retinue.sources.directory import DirectorySource

if TYPE_CHECKING:
    from retinue.definition.code import CodeAgent
    from retinue.sources.git import GitSource
    from retinue.storage.sqlite import Database

T = TypeVar("T")
Progress = Callable[[str, float], None]


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking one repository's server."""

    repository: str
    commit: str | None = None
    changed: bool = False
    error: str | None = None


class CatalogHolder:
    """The current catalog and the sources behind it."""

    def __init__(
        self,
        settings: Settings,
        sources: Sequence[Source],
        database: "Database | None" = None,
        records: AgentRecords | None = None,
    ) -> None:
        self.settings = settings
        self.current = Catalog.build(())
        self.records = records
        """The custom agents, when there is a database."""
        self._sources = tuple(sources)
        self._database = database
        self._snapshots: dict[str, Snapshot] = {}
        self._tenants: dict[str, tuple[tuple[Snapshot, ...], Catalog]] = {}

    async def reload(self, names: Iterable[str] | None = None) -> Summary:
        """Read all sources again, or those named; what did not change costs little."""
        wanted = None if names is None else set(names)
        for source in self._sources:
            if wanted is None or source.name in wanted or source.name not in self._snapshots:
                self._snapshots[source.name] = await _load(source, self._snapshots.get(source.name))
        if wanted is None or "database" in wanted:
            self._tenants.clear()
        old, self.current = self.current, Catalog.build(self._snapshots.values())
        return diff(old, self.current)

    def of(self, tenant: str) -> Catalog:
        """The catalog as a tenant sees it: with custom agents of its own, and nobody else's."""
        if tenant == DEFAULT_TENANT or self.records is None:
            return self.current
        shared = tuple(snapshot for snapshot in self.current.snapshots if snapshot.kind != "database")
        held = self._tenants.get(tenant)
        if held is None or held[0] != shared:
            from retinue.sources.database import DatabaseSource

            own = _finish(DatabaseSource(self.records, Tenant(tenant)).load(None))
            held = self._tenants[tenant] = (shared, Catalog.build((*shared, own)))
        return held[1]

    async def sync(self, name: str | None = None) -> tuple[Synced, ...]:
        """Ask the servers of the repositories, all at once, and read what came."""
        synced = await self._fetch(name)
        await self.reload([f"git:{one.repository}" for one in synced])
        return synced

    async def watch(self, callback: Callable[[Summary], Awaitable[None] | None]) -> None:
        """Keep the catalog current until cancelled: folders as they change, repositories on their interval."""
        import asyncio

        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_folders(callback))
            if self.repositories:
                group.create_task(self._sync_when_due(callback))

    @property
    def repositories(self) -> tuple["GitSource", ...]:
        """The repositories that may be used."""
        if not self.settings.repositories:
            return ()
        from retinue.sources.git import GitSource

        return tuple(s for s in self._sources if isinstance(s, GitSource))

    async def check_database(self) -> Sequence[str]:
        """What is wrong with rows that derive from a log; nothing when there is no database."""
        return await self._database.check() if self._database is not None else ()

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()

    async def _fetch(self, name: str | None, *, only_due: bool = False) -> tuple[Synced, ...]:
        import asyncio

        wanted = [s for s in self.repositories if s.config.name == name or (name is None and s.config.is_active)]
        if name is not None and not wanted:
            known = ", ".join(s.config.name for s in self.repositories) or "none"
            raise NotFound(f"there is no repository {name!r} that may be synced; there are: {known}")
        now = time.time()
        due = [s for s in wanted if not only_due or s.sync_due(now)]
        return tuple(await asyncio.gather(*(_sync(s, now) for s in due)))

    async def _watch_folders(self, callback: Callable[[Summary], Awaitable[None] | None]) -> None:
        from retinue.sources.watch import changed_folders

        by_folder = {s.folder.absolute(): s.name for s in self._sources if isinstance(s, DirectorySource)}
        async for folders in changed_folders(tuple(by_folder)):
            await _tell(callback, await self.reload([by_folder[f] for f in folders]))

    async def _sync_when_due(self, callback: Callable[[Summary], Awaitable[None] | None]) -> None:
        import asyncio

        names = [s.name for s in self.repositories]
        while True:
            await self._fetch(None, only_due=True)
            # all of them: another process may have synced, and a look costs one small file
            await _tell(callback, await self.reload(names))
            await asyncio.sleep(min(1.0, *(s.config.sync_interval for s in self.repositories)))


async def open_catalog(
    settings: Settings,
    *,
    environ: Mapping[str, str] | None = None,
    code: "Iterable[CodeAgent | AgentDefinition]" = (),
    progress: Progress | None = None,
    records: AgentRecords | None = None,
) -> CatalogHolder:
    """Make every source the settings name and read them once. Close the holder when done.

    Args:
        code: Agents defined in Python.
        progress: Told what is being read or fetched and the part that is done, 0 to 1.
        records: The custom agents of a database that is open already; without them the settings' one is opened
            if it exists.
    """
    database = await _open_database(settings) if records is None else None
    opened = None if isinstance(database, str) else database
    rows = records or (opened.records if opened is not None else None)
    unusable = database if isinstance(database, str) else None
    sources = tuple(_sources(settings, os.environ if environ is None else environ, code, progress, rows, unusable))
    holder = CatalogHolder(settings, sources, opened, rows)
    await holder.reload()
    return holder


def read_catalog(
    settings: Settings, *, code: "Iterable[CodeAgent | AgentDefinition]" = (), progress: Progress | None = None
) -> Catalog:
    """The catalog for one command, without an event loop where no source needs one."""

    async def read() -> Catalog:
        holder = await open_catalog(settings, code=code, progress=progress)
        await holder.close()
        return holder.current

    if settings.repositories or _has_database(settings):
        import asyncio

        return asyncio.run(read())
    return _finish(read())


def mirror_folder(settings: Settings, repository: str) -> Path:
    return settings.home / "mirrors" / repository.replace("/", "%2F")


def _sources(
    settings: Settings,
    environ: Mapping[str, str],
    code: "Iterable[CodeAgent | AgentDefinition]",
    progress: Progress | None,
    records: AgentRecords | None,
    unusable: str | None,
) -> Iterator[Source]:
    yield from folder_sources(settings, _Trust(settings.home).read, Path.home(), progress)
    if custom := list(_configured(settings, lambda file: file.agents.custom)):
        yield ConfigurationSource(custom)
    yield from _git_sources(settings, environ, progress)
    if unusable is not None:
        yield _Failed("database", "database", unusable)
    if records is not None:
        from retinue.sources.database import DatabaseSource

        yield DatabaseSource(records)
    if agents := tuple(code):
        from retinue.sources.code import CodeSource

        yield CodeSource(agents)
    yield BuiltinSource()
    if remote := list(_configured(settings, lambda file: file.remote_agents)):
        yield ConfigurationSource(remote, remote=True)


def _configured(
    settings: Settings, agents: Callable[[SettingsFile], Sequence[Mapping[str, object]]]
) -> Iterator[ConfiguredAgents]:
    for tier in reversed(settings.tiers):
        if tier.path is not None and (said := agents(tier.settings)):
            yield ConfiguredAgents(file=str(tier.path), agents=said, trusted=tier.trusted)


def _git_sources(settings: Settings, environ: Mapping[str, str], progress: Progress | None) -> Iterator[Source]:
    if not settings.repositories:
        return
    from retinue.sources.git import GitSource
    from retinue.sources.mirror import Mirror
    from retinue.sources.repository import parse_repository

    names: set[str] = set()
    for repository in settings.repositories:
        config, problems = parse_repository(repository.fields, origin=repository.origin)
        name = config.name if config is not None else str(repository.fields.get("name") or "?")
        if config is None:
            yield _Failed(f"git:{name}", "git", "; ".join(p.message for p in problems), problems)
        elif name in names:  # under another name, so that a project can't put out the repository of a user
            error = f"{name!r} is configured already; {repository.origin} must choose another name"
            yield _Failed(f"git:{name}@{repository.origin}", "git", error, namespace=name)
        elif not repository.trusted:
            hint = f"read it, then: retinue agents trust {repository.origin}"
            namespace = None if config.is_root else name
            yield _Failed(f"git:{name}", "git", f"{repository.origin} is not trusted yet; {hint}", namespace=namespace)
        else:
            mirror = Mirror(config, mirror_folder(settings, name), environ, allow_local=settings.local_repositories)
            yield GitSource(config, mirror, progress=progress)
        names.add(name)


class _Failed:
    """A source that can't be used, and why."""

    def __init__(
        self,
        name: str,
        kind: SourceKind,
        error: str,
        problems: tuple[Problem, ...] = (),
        *,
        namespace: str | None = None,
    ) -> None:
        self.name = name
        self._snapshot = Snapshot(name=name, kind=kind, entries={}, namespace=namespace, error=error, problems=problems)

    async def load(self, previous: Snapshot | None) -> Snapshot:
        return self._snapshot


class _Trust:
    """The trust file, read again when it changed: a server must notice what a person trusts meanwhile."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stamp = -1
        self._trusted: Trusted = {}

    def read(self) -> Trusted:
        try:
            stamp = (self._home / "trust.json").stat().st_mtime_ns
        except OSError:
            return {}
        if stamp != self._stamp:
            self._stamp, self._trusted = stamp, read_trust(self._home)
        return self._trusted


async def _load(source: Source, previous: Snapshot | None) -> Snapshot:
    """One failing source must not take the others with it; the last good snapshot stays."""
    try:
        return await source.load(previous)
    except (OSError, RetinueError) as e:
        if previous is not None:
            return msgspec.structs.replace(previous, error=str(e), stale=True)
        kind = msgspec.convert(source.name.partition(":")[0], SourceKind)
        return Snapshot(name=source.name, kind=kind, entries={}, error=str(e))


async def _sync(source: "GitSource", now: float) -> Synced:
    try:
        fetched = await source.sync(now)
    except (GitError, RetinueError) as e:
        return Synced(repository=source.config.name, error=f"{e.message}; {e.hint}" if e.hint else e.message)
    return Synced(repository=source.config.name, commit=fetched.commit, changed=fetched.changed)


async def _tell(callback: Callable[[Summary], Awaitable[None] | None], summary: Summary) -> None:
    if summary and (said := callback(summary)) is not None:
        await said


async def _open_database(settings: Settings) -> "Database | str | None":
    """The database if there is one; why it can't be used if it is broken."""
    if not _has_database(settings):
        return None
    from retinue.storage.sqlite import open_database

    try:
        return await open_database(Path(settings.database))
    except RetinueError as e:
        return e.message


def _has_database(settings: Settings) -> bool:
    return "://" not in settings.database and Path(settings.database).exists()


def _finish(work: Coroutine[None, None, T]) -> T:
    """Run what never really waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a source waited where no event loop runs")
