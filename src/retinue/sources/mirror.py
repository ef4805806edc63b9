"""A bare copy of one branch of one repository, read from objects and never checked out.

The folder holds the copy (`repository.git`), what the last sync came to
(`state.json`), a lock for writers and ssh's known hosts. `state.json` is
replaced after the objects are there, so a reader sees one commit or the next
and a crash leaves the last one. Parsing what the files say is for
`retinue.sources.git`; how git is run, for `retinue.sources.git_program`.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from retinue.schema.errors import GitError, NotFound
from retinue.sources.git_program import Git, Limits, Progress, environment
from retinue.sources.repository import Remote, RepositoryConfig, bad_branch, remote

_CURRENT = "refs/retinue/current"
_INCOMING = "refs/retinue/incoming"
_HISTORY = "refs/retinue/history"
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REVISION = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_./+-]*)((?:[~^]\d{0,4})*)")
_HEX = re.compile(r"[0-9a-f]{7,64}")
_DEPTH = 200


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    commit: str
    changed: bool


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the last syncs came to. `error` set: the last one failed and `commit` is older than it."""

    origin: str = ""
    commit: str | None = None
    checked: float = 0.0
    error: str | None = None
    broken: bool = False


class File(msgspec.Struct, frozen=True):
    """A name in a tree. `size` is None for what is no blob."""

    mode: str
    sha: str
    size: int | None


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    sha: str
    time: int
    subject: str


class Mirror:
    """One mirror folder; several processes may hold one on the same folder."""

    def __init__(
        self,
        config: RepositoryConfig,
        folder: Path,
        env: Mapping[str, str],
        *,
        allow_local: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.folder = folder
        self.limits = limits or Limits()
        self._config = config
        self._env = env
        self._allow_local = allow_local
        self._repository = folder / "repository.git"
        self._origin = hashlib.sha256(f"{config.git_url}\n{config.branch}".encode()).hexdigest()

    def state(self) -> State:
        """What the last sync of this URL and branch came to; an empty state when there was none."""
        try:
            state = msgspec.json.decode((self.folder / "state.json").read_bytes(), type=State)
        except (OSError, msgspec.DecodeError):
            return State(origin=self._origin)
        return state if state.origin == self._origin else State(origin=self._origin)

    async def head(self) -> str | None:
        """The branch's commit on the server; None when there is no such branch."""
        target = self._remote()
        out = await self._git(target).run("ls-remote", "--", target.url, self._branch)
        lines = (line.split("\t") for line in out.decode("utf-8", "replace").splitlines())
        return next((_checked(commit) for commit, ref in lines if ref == self._branch), None)

    async def fetch(self, now: float, progress: Progress | None = None) -> Fetched:
        """Bring the branch's newest commit here; an unchanged branch costs one ref query.

        Raises:
            GitError: It failed. The commit we had stays, and `state()` says what went wrong.
        """
        async with self._locked():
            state = self.state()
            try:
                commit = await self._wanted()
                if commit != state.commit or state.broken or not await self._has(commit):
                    commit = await self._bring(state, progress)
            except (GitError, OSError) as error:
                failure = error if isinstance(error, GitError) else _unwritable(error)
                said = f"{failure.message}; {failure.hint}" if failure.hint else failure.message
                self._record(msgspec.structs.replace(state, checked=now, error=said))
                raise failure from None
            self._record(State(origin=self._origin, commit=commit, checked=now))
            return Fetched(commit=commit, changed=commit != state.commit)

    def distrust(self) -> None:
        """Note that objects are missing or damaged: the next fetch makes the mirror anew."""
        self._record(msgspec.structs.replace(self.state(), broken=True))

    async def whole(self, commit: str) -> bool:
        """Whether every object of `commit`'s tree is here; slow, for when something went wrong."""
        try:
            await self._git().run("rev-list", "--objects", "--quiet", "-n1", commit)
        except GitError:
            return False
        return True

    async def tree(self, commit: str, paths: Sequence[str] = ()) -> dict[str, File]:
        """Every file of `commit`, or those of `paths`. Names that are not UTF-8 hold surrogates."""
        out = await self._git().run("ls-tree", "-r", "-z", "-l", _checked(commit), "--", *paths)
        files: dict[str, File] = {}
        for record in out.split(b"\0"):
            if record:
                about, _, path = record.partition(b"\t")
                mode, _, sha, size = about.decode().split()
                if size == "BAD":
                    raise GitError(f"the mirror has lost the object {sha}; it is made anew by the next sync")
                files[os.fsdecode(path)] = File(mode, sha, int(size) if size != "-" else None)
        return files

    async def changed(self, old: str, new: str) -> set[str] | None:
        """The paths that differ between two commits; None when the older one is not here any more."""
        try:
            out = await self._git().run(
                "diff-tree", "-r", "-z", "--no-renames", "--name-only", _checked(old), _checked(new)
            )
        except GitError:
            return None
        return {os.fsdecode(path) for path in out.split(b"\0") if path}

    def blobs(self, shas: Iterable[str]) -> Iterator[bytes]:
        """The contents of blobs in order, through one process. Blocks: call it from a thread."""
        return self._git().blobs(map(_checked, shas))

    async def show(self, commit: str, path: str) -> bytes:
        """One file as it was in `commit`."""
        file = (await self.tree(commit, [path])).get(path)
        if file is None or file.size is None or file.mode == "120000":
            raise NotFound(f"there is no file {path!r} in {commit[:12]} of {self._config.name}")
        if file.size > self.limits.blob:
            raise GitError(f"{path} of {self._config.name} has {file.size} bytes; at most {self.limits.blob} are read")
        (content,) = await asyncio.to_thread(list, self.blobs([file.sha]))
        return content

    async def resolve(self, revision: str) -> str:
        """The commit that `revision` (`HEAD`, `HEAD~2`, a branch, a tag, a commit) means.

        What is not here is fetched: this may use the network.
        """
        match = _REVISION.fullmatch(revision)
        if match is None or bad_branch(match[1]):
            raise NotFound(f"{revision[:80]!r} is not a revision; wanted a commit, a branch, a tag or HEAD~1")
        base, steps = match[1], match[2]
        local = self.state().commit if base == "HEAD" else base if _HEX.fullmatch(base) else None
        if local and (found := await self._parse(local + steps)):
            return found
        failed: GitError | None = None
        async with self._locked():
            for source in self._sources(base):
                start = local if local and source in (local, self._branch) else _HISTORY
                failed = await self._deepen(source)
                if failed is None and (found := await self._parse(start + steps)):
                    return found
        raise NotFound(f"{self._config.name} has no revision {revision!r}", hint=failed.message if failed else None)

    async def log(self, path: str, limit: int = 20) -> tuple[Commit, ...]:
        """The newest commits that changed `path`, as far as `_DEPTH` commits of history tell. Uses the network."""
        async with self._locked():
            start = _CURRENT if await self._deepen(self._branch) else _HISTORY
        out = await self._git().run("log", "-z", f"-n{limit}", "--format=%H %ct %s", start, "--", path)
        records = (record.decode("utf-8", "replace").split(" ", 2) for record in out.split(b"\0") if record)
        return tuple(Commit(sha=sha, time=int(time), subject=subject) for sha, time, subject in records)

    @property
    def _branch(self) -> str:
        return f"refs/heads/{self._config.branch}"

    def _remote(self) -> Remote:
        return remote(self._config, allow_local=self._allow_local)

    def _git(self, target: Remote | None = None, repository: Path | None = None) -> Git:
        env, secrets = environment(self._config, target, self.folder, self._env)
        return Git(repository or self._repository, env, self.limits, secrets)

    async def _wanted(self) -> str:
        commit = await self.head()
        if commit is not None:
            return commit
        target = self._remote()
        heads = await self._git(target).run("ls-remote", "--heads", "--", target.url)
        names = [line.decode("utf-8", "replace").partition("refs/heads/")[2] for line in heads.splitlines()]
        there = f"it has {', '.join(filter(str.isprintable, names[:10]))}" if names else "it is empty"
        raise GitError(f"the repository has no branch '{self._config.branch}'; {there}", hint="check branch")

    async def _bring(self, state: State, progress: Progress | None) -> str:
        """Fetch into the mirror; one that is damaged is replaced by a fresh one once that is whole."""
        if not state.broken:
            try:
                return await self._download(self._repository, progress)
            except GitError:
                if state.commit is None:
                    shutil.rmtree(self._repository, ignore_errors=True)
                if state.commit is None or await self.whole(state.commit):
                    raise
        fresh, old = self.folder / "fresh.git", self.folder / "old.git"
        shutil.rmtree(fresh, ignore_errors=True)
        commit = await self._download(fresh, progress)
        shutil.rmtree(old, ignore_errors=True)
        if self._repository.exists():
            self._repository.rename(old)
        fresh.rename(self._repository)
        shutil.rmtree(old, ignore_errors=True)
        return commit

    async def _download(self, repository: Path, progress: Progress | None) -> str:
        if not repository.exists():
            await self._git(repository=repository).run("init", "--bare", "--quiet", "--template=", str(repository))
        for leftover in (repository / "objects" / "pack").glob("tmp_*"):
            leftover.unlink(missing_ok=True)
        target = self._remote()
        git = self._git(target, repository)
        await git.run(
            *("fetch", "--depth=1", "--no-tags", "--no-write-fetch-head", "--progress"),
            *("--", target.url, f"+{self._branch}:{_INCOMING}"),
            progress=progress,
        )
        await git.run("update-ref", _CURRENT, _INCOMING)
        return (await git.run("rev-parse", "--verify", f"{_CURRENT}^{{commit}}")).decode().strip()

    def _sources(self, base: str) -> tuple[str, ...]:
        """What to ask the server for when `base` is not here."""
        if base == "HEAD":
            return (self._branch,)
        if _SHA.fullmatch(base):
            return (base, self._branch)
        named = (f"refs/heads/{base}", f"refs/tags/{base}")
        return (self._branch, *named) if _HEX.fullmatch(base) else named

    async def _deepen(self, source: str) -> GitError | None:
        """Fetch some history of `source` into our history ref; or say why not."""
        target = self._remote()
        depth = ("fetch", f"--depth={_DEPTH}", "--no-tags", "--no-write-fetch-head")
        try:
            await self._git(target).run(*depth, "--", target.url, f"+{source}:{_HISTORY}")
        except GitError as error:
            return error
        return None

    async def _parse(self, revision: str) -> str | None:
        try:
            return (
                (await self._git().run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")).decode().strip()
            )
        except GitError:
            return None

    async def _has(self, commit: str) -> bool:
        """Whether the commit and its tree are here; a single cheap look."""
        try:
            await self._git().run("cat-file", "-e", f"{commit}^{{tree}}")
        except GitError:
            return False
        return True

    def _record(self, state: State) -> None:
        temporary = self.folder / f"state.{os.getpid()}"
        try:
            temporary.write_bytes(msgspec.json.encode(state))
            temporary.replace(self.folder / "state.json")
        except OSError as error:
            raise _unwritable(error) from None

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = (self.folder / "lock").open("w")
        except OSError as error:
            raise _unwritable(error) from None
        with file as lock:
            for _ in range(int(self.limits.timeout * 50)):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(0.02)
                else:
                    break
            else:
                raise GitError(f"another process has been syncing {self._config.name} for {self.limits.timeout:g} s")
            yield


def _unwritable(error: OSError) -> GitError:
    return GitError(f"the mirror can't be written: {error}", hint="check the folder's owner and the space on its disk")


def _checked(sha: str) -> str:
    if not _SHA.fullmatch(sha):
        raise GitError(f"{sha[:80]!r} is not the name of an object")
    return sha
