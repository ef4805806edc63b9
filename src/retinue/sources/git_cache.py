"""What was read from a repository's files, kept so that a new process need not parse them again.

A cache is a file of frames: the first holds every file of a commit, each later
one what another commit changed. Definitions stay encoded until somebody asks
for them, so opening ten thousand agents costs an index. It is only ever a copy: one that
can't be read, or that another version of the loader wrote, is as good as none.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Collection, Iterator, KeysView, Mapping
from pathlib import Path

import msgspec

import retinue.definition.load
import retinue.schema.agent
from retinue.ports.source import Entry
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

_MOST_FRAMES = 64
_LENGTH = 8


class Parsed:
    """What one path came to: agents, problems, or nothing. Its entries are decoded when first asked for."""

    __slots__ = ("_entries", "body", "ids", "key", "needs", "problems")

    def __init__(
        self,
        key: str,
        ids: tuple[AgentId, ...] = (),
        problems: tuple[Problem, ...] = (),
        needs: tuple[str, ...] = (),
        body: msgspec.Raw | None = None,
    ) -> None:
        self.key = key
        """Mode and blob; empty for what is never read: links, submodules, files that are too large."""
        self.ids = ids
        self.problems = problems
        self.needs = needs
        """Paths of other files that were looked for, there or not: when one changes, this is parsed again."""
        self.body = body or _NOTHING
        self._entries: tuple[Entry, ...] | None = None

    @classmethod
    def of(
        cls, key: str, entries: tuple[Entry, ...], problems: tuple[Problem, ...], needs: tuple[str, ...]
    ) -> "Parsed":
        made = cls(key, tuple(e.id for e in entries), problems, needs, msgspec.Raw(_encode(entries)))
        made._entries = entries
        return made

    def entry(self, id: AgentId) -> Entry:
        entries = self._entries or self._decoded()
        return entries[0] if len(entries) == 1 else entries[self.ids.index(id)]

    def _decoded(self) -> tuple[Entry, ...]:
        try:
            self._entries = _decode_entries(self.body)
        except msgspec.DecodeError:
            self._entries = tuple(Entry(id=id, definition=None, problems=(_DAMAGED,)) for id in self.ids)
        return self._entries


class Entries(Mapping[AgentId, Entry]):
    """A snapshot's entries over parsed files."""

    def __init__(self, files: Mapping[AgentId, Parsed]) -> None:
        self._files = files

    def __getitem__(self, id: AgentId) -> Entry:
        return self._files[id].entry(id)

    def __iter__(self) -> Iterator[AgentId]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, id: object) -> bool:
        return id in self._files

    def keys(self) -> KeysView[AgentId]:
        """The dictionary's own view: comparing two catalogs is set arithmetic on these."""
        return self._files.keys()


class Known:
    """Every file of one commit that matters, and the state of the cache that says so."""

    __slots__ = ("commit", "files", "mark")

    def __init__(self, commit: str, files: dict[str, Parsed], mark: "_Mark | None" = None) -> None:
        self.commit = commit
        self.files = files
        self.mark = mark


class _Mark(msgspec.Struct, frozen=True):
    """How the cache looked when we last agreed with it."""

    inode: int
    size: int
    first: int
    frames: int


_Row = tuple[bytes, str, tuple[AgentId, ...], tuple[Problem, ...], tuple[str, ...], msgspec.Raw]
_Frame = tuple[str, str, tuple[bytes, ...], list[_Row]]

_encode = msgspec.msgpack.Encoder().encode
_decode_entries = msgspec.msgpack.Decoder(tuple[Entry, ...]).decode
_decode_frame = msgspec.msgpack.Decoder(_Frame).decode
_NOTHING = msgspec.Raw(_encode(()))
_DAMAGED = Problem(
    code="cache-damaged",
    severity="error",
    message="the cache of parsed agents can't be read",
    hint="remove `cache` in the mirror's folder",
)


def read(path: Path, version: str) -> Known | None:
    """What the cache holds; None when it is missing, damaged or of another version."""
    try:
        with path.open("rb") as file:
            inode, data = os.fstat(file.fileno()).st_ino, file.read()
        known = Known("", {})
        at = first = frames = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + _LENGTH], "little")
            if at + _LENGTH + size > len(data):
                break
            written_by, known.commit, gone, rows = _decode_frame(memoryview(data)[at + _LENGTH : at + _LENGTH + size])
            if written_by != version:
                return None
            for name in gone:
                known.files.pop(os.fsdecode(name), None)
            for name, key, ids, problems, needs, body in rows:
                known.files[os.fsdecode(name)] = Parsed(key, ids, problems, needs, body)
            at += _LENGTH + size
            first, frames = first or at, frames + 1
    except (OSError, msgspec.DecodeError):
        return None
    known.mark = _Mark(inode, at, first, frames) if at == len(data) else None
    return known if frames else None


def write(path: Path, version: str, known: Known, changed: Collection[str], gone: Collection[str]) -> None:
    """Bring the cache to `known`: by a frame of what changed if it is as we left it, else whole.

    A cache that can't be written is a slower start, not an error.
    """
    with contextlib.suppress(OSError):
        if not _append(path, version, known, changed, gone):
            frame = _frame(version, known, known.files, ())
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            temporary.write_bytes(frame)
            inode = temporary.stat().st_ino
            temporary.replace(path)
            known.mark = _Mark(inode, len(frame), len(frame), 1)


def loader_version(*more: str) -> str:
    """Names the code that parses: another loader may read the same file differently."""
    digest = hashlib.sha256("\0".join(more).encode())
    for module in (retinue.definition.load, retinue.schema.agent):
        for file in sorted(filter(Path.is_file, Path(module.__file__ or "").parent.iterdir())):
            about = file.stat()
            digest.update(f"{file.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _append(path: Path, version: str, known: Known, changed: Collection[str], gone: Collection[str]) -> bool:
    mark = known.mark
    if mark is None or mark.frames >= _MOST_FRAMES or mark.size > 2 * mark.first:
        return False
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        about = os.fstat(file.fileno())
        if (about.st_ino, about.st_size) != (mark.inode, mark.size):
            return False
        frame = _frame(version, known, changed, gone)
        file.seek(0, os.SEEK_END)
        file.write(frame)
    known.mark = _Mark(mark.inode, mark.size + len(frame), mark.first, mark.frames + 1)
    return True


def _frame(version: str, known: Known, names: Collection[str], gone: Collection[str]) -> bytes:
    files = ((name, known.files[name]) for name in names)
    rows: list[_Row] = [(os.fsencode(name), f.key, f.ids, f.problems, f.needs, f.body) for name, f in files]
    body = _encode((version, known.commit, tuple(map(os.fsencode, gone)), rows))
    return len(body).to_bytes(_LENGTH, "little") + body
