"""A git repository as a source.

`load` reads the mirror and never the network; `sync` asks the server. A file
is parsed once for its blob and path, in this process or, through
`retinue.sources.git_cache`, in any before it. What a file comes to is for
`retinue.sources.git_files`, getting objects for `retinue.sources.mirror`.
"""

import asyncio
from collections.abc import Mapping
from functools import cached_property

from retinue.ports.source import Snapshot
from retinue.schema.errors import GitError, UsageError
from retinue.schema.problem import Problem
from retinue.sources.git_cache import Entries, Known, loader_version, read, write
from retinue.sources.git_files import Reader, key_of, matters, resolved
from retinue.sources.git_program import Progress
from retinue.sources.mirror import Fetched, File, Mirror
from retinue.sources.repository import RepositoryConfig

_MOST_PATHS = 400
"""Above this many changed files one look at the whole tree is cheaper, and always fits a command line."""


class GitSource:
    """One configured repository.

    `progress` may be called from another thread.
    """

    def __init__(self, config: RepositoryConfig, mirror: Mirror, *, progress: Progress | None = None) -> None:
        self.config = config
        self.mirror = mirror
        self._cache = mirror.folder / "cache"
        self._progress = progress
        self._reader = Reader(mirror.blobs, shown=self._shown, largest=mirror.limits.blob, progress=progress)
        self._known: Known | None = None
        self._last: tuple[Known | None, str | None, Snapshot] | None = None

    @property
    def name(self) -> str:
        return f"git:{self.config.name}"

    def sync_due(self, now: float) -> bool:
        """Whether the interval has passed since anybody last asked the server."""
        if not self.config.is_active:
            return False
        state = self.mirror.state()
        return state.broken or not 0 <= now - state.checked < self.config.sync_interval

    async def sync(self, now: float) -> Fetched:
        """Ask the server; `load` then shows what came of it.

        Raises:
            GitError: It failed; the last good commit stays, and `load` says that it is stale.
        """
        if not self.config.is_active:
            raise UsageError(f"repository {self.config.name} is not active", hint="set isActive to true")
        return await self.mirror.fetch(now, self._progress)

    async def load(self, previous: Snapshot | None) -> Snapshot:
        """Read the mirror as it is; the same snapshot again when nothing changed."""
        if not self.config.is_active:
            return self._snapshot(None)
        state = self.mirror.state()
        failed = state.error
        if state.commit is None:
            return self._snapshot(None, failed or f"never synced; run: retinue repos sync {self.config.name}")
        try:
            self._known = await self._at(state.commit)
        except GitError as error:
            failed = error.message
            if not await self.mirror.whole(state.commit):
                self.mirror.distrust()
        if self._known is None or self._last is None or self._last[:2] != (self._known, failed):
            self._last = (self._known, failed, self._snapshot(self._known, failed))
        return self._last[2]

    def _snapshot(self, known: Known | None, failed: str | None = None) -> Snapshot:
        owners, problems = resolved(known.files if known else {}, self._shown)
        if known and failed:
            message = f"is as it was at {known.commit[:12]}, because the last sync failed: {failed}"
            problems.insert(0, Problem(code="stale", severity="warning", message=message, file=self.name))
        return Snapshot(
            name=self.name,
            kind="git",
            entries=Entries(owners),
            namespace=None if self.config.is_root else self.config.name,
            priority="root" if self.config.is_root else "namespaced",
            repository=self.config.name,
            commit=known.commit if known else None,
            problems=tuple(problems),
            error=f"source unavailable: {failed}" if failed and not known else None,
            stale=failed is not None and known is not None,
        )

    async def _at(self, commit: str) -> Known:
        """Every file of `commit` that matters; only what is not known yet is parsed."""
        known = self._known or await asyncio.to_thread(read, self._cache, self._version) or Known("", {})
        if known.commit == commit:
            return known
        changed = await self.mirror.changed(known.commit, commit) if known.commit else None
        if changed is None or len(changed) > _MOST_PATHS:
            tree = {path: file for path, file in (await self.mirror.tree(commit)).items() if matters(path, file)}
            changed = {
                path for path, file in tree.items() if _new(known, path, file)
            } | known.files.keys() - tree.keys()
        else:
            paths = sorted(filter(matters, changed))
            tree = await self.mirror.tree(commit, paths) if paths else {}
        return await asyncio.to_thread(self._updated, known, commit, tree, changed)

    def _updated(self, known: Known, commit: str, tree: Mapping[str, File], changed: set[str]) -> Known:
        gone = {path for path in changed if path in known.files and path not in tree}
        files = {path: parsed for path, parsed in known.files.items() if path not in gone}
        again = [
            path
            for path, parsed in files.items()
            if parsed.needs and path not in changed and not changed.isdisjoint(parsed.needs)
        ]
        differing = {path: tree[path] for path in changed if path in tree and matters(path, tree[path])}
        read_now = self._reader.read(differing, again, files)
        updated = Known(commit, files | read_now, known.mark)
        write(self._cache, self._version, updated, read_now, gone)
        return updated

    @cached_property
    def _version(self) -> str:
        return loader_version(self.config.name, str(self.mirror.limits.blob))

    def _shown(self, path: str) -> str:
        return f"{self.config.name}/{path}"


def _new(known: Known, path: str, file: File) -> bool:
    parsed = known.files.get(path)
    return parsed is None or parsed.key != key_of(file)
