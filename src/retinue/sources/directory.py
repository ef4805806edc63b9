"""Agents in a folder: scans Markdown files, and parses again only those that changed.

Which path is which agent is for `retinue.definition.ids`, what a file says for
`retinue.definition.load`, whether a person trusts it for whoever makes the source.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from retinue.definition.assemble import PromptLookup
from retinue.definition.ids import agent_id, precedence
from retinue.definition.load import load_all, load_prompt
from retinue.ports.source import Entry, Snapshot, SourceKind
from retinue.schema.agent import AgentDefinition, Prompt
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

Trust = Callable[[str, str], bool]
"""Whether an agent id with this hash may run."""

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
_LARGEST = 2_000_000
_Stamp = tuple[int, int, int]


class _File(msgspec.Struct, frozen=True):
    path: str
    """Relative to the folder, with `/`."""
    real: str
    stamp: _Stamp


class _Read(msgspec.Struct, frozen=True):
    stamp: _Stamp
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    uses_prompts: bool


class DirectorySource:
    """One folder of agents; a folder that is not there holds none."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        kind: SourceKind,
        trust: Trust | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> None:
        """Without `trust` every agent of the folder may run. `progress` hears the part that is read, 0 to 1."""
        self.name = name
        self.folder = folder
        self._kind: SourceKind = kind
        self._trust = trust
        self._progress = progress
        self._shown = _shown(folder)
        self._read: dict[str, _Read] = {}
        self._prompts: frozenset[_File] = frozenset()

    async def load(self, previous: Snapshot | None) -> Snapshot:
        try:
            files, problems = self._scan()
        except OSError as e:
            return Snapshot(name=self.name, kind=self._kind, entries={}, error=f"{self._shown}: {e.strerror or e}")
        prompts = frozenset(f for f in files if agent_id(f.path) is None)
        same_prompts, self._prompts = prompts == self._prompts, prompts
        read: dict[str, _Read] = {}
        entries: dict[AgentId, Entry] = {}
        files.sort(key=lambda f: (agent_id(f.path) or "", precedence(f.path), f.path))
        for number, file in enumerate(files):
            id = agent_id(file.path)
            if id is None:
                continue
            if self._progress is not None:
                self._progress(f"reading {self._shown}", number / len(files))
            known = self._read.get(file.path)
            if known is None or known.stamp != file.stamp or (known.uses_prompts and not same_prompts):
                known = self._parse(file, id)
            read[file.path] = known
            problems.extend(known.problems)
            for entry in known.entries:
                if first := entries.get(entry.id):
                    problems.append(_second(entry, first))
                else:
                    entries[entry.id] = self._judged(entry)
        self._read = read
        return Snapshot(name=self.name, kind=self._kind, entries=entries, problems=tuple(problems))

    def _judged(self, entry: Entry) -> Entry:
        trusted = self._trust is None or self._trust(entry.id, entry.hash)
        return entry if trusted else msgspec.structs.replace(entry, trusted=False)

    def _scan(self) -> tuple[list[_File], list[Problem]]:
        if not self.folder.exists():
            return [], []
        problems: list[Problem] = []
        files = list(_walk(self.folder, problems, self._shown))
        return files, problems

    def _parse(self, file: _File, id: AgentId) -> _Read:
        shown = f"{self._shown}/{file.path}"
        text = _bytes(file.real)
        if isinstance(text, Problem):
            problem = msgspec.structs.replace(text, file=shown)
            return _Read(file.stamp, (Entry(id=id, definition=None, problems=(problem,), location=shown),), (), False)
        entries, problems = file_entries(text, shown, id, folder_prompts(self.folder, file.path))
        uses = any(e.definition is None or e.definition.prompts or e.definition.type == "dual_ai" for e in entries)
        return _Read(file.stamp, entries, problems, uses)


def file_entries(
    text: bytes, shown: str, id: AgentId, prompts: PromptLookup
) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
    """The agents of a file, and its problems when it is none: those are kept for whoever asks for it by name."""
    entries: list[Entry] = []
    for loaded in load_all(text, file=shown, id=id, prompts=prompts):
        if loaded.skipped:
            return (), (msgspec.structs.replace(_NO_AGENT, file=shown),)
        definition = loaded.definition
        entries.append(
            Entry(
                id=definition.id if definition is not None else id,
                definition=definition,
                problems=loaded.problems,
                location=shown,
                hash=trust_hash(definition) if definition is not None else sha256(text).hexdigest(),
            )
        )
    return tuple(entries), ()


def trust_hash(definition: AgentDefinition) -> str:
    """Names everything a person read: the file, and the prompts it takes from other files."""
    if not definition.prompts:
        return definition.hash
    return sha256(definition.hash.encode() + msgspec.json.encode(definition.prompts, order="sorted")).hexdigest()


def prompt_paths(name: str, agent: str) -> Sequence[str]:
    """Where a side's prompt may be, best first, as paths relative to the source.

    Beside the agent, in its `prompts/` folder or one further up, then as another agent's own file.

    Args:
        name: What `prompt` says.
        agent: The path of the agent's file.
    """
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        return ()
    name = name.removesuffix(".md")
    folder = agent.rpartition("/")[0]
    above = [folder]
    while above[-1]:
        above.append(above[-1].rpartition("/")[0])
    candidates = [f"{folder}/{name}.md", f"{folder}/_{name}.md", *(f"{up}/prompts/{name}.md" for up in above)]
    candidates += [f"{name}/prompt.md", f"{name}/agent.md", f"{name}.md"]
    return tuple(path for c in dict.fromkeys(candidates) if (path := c.lstrip("/")) != agent)


def folder_prompts(folder: Path, agent: str) -> PromptLookup:
    """Look prompts up in the files of `folder`, for the agent at `agent`."""
    root = Path(os.path.realpath(folder))

    def look(name: str) -> Prompt | str | None:
        for path in prompt_paths(name, agent):
            real = os.path.realpath(root / path)
            text = _bytes(real) if _inside(real, root) else None
            if isinstance(text, bytes):
                return load_prompt(text, file=path, name=name)[0]
        return None

    return look


def _walk(folder: Path, problems: list[Problem], shown: str) -> Iterator[_File]:
    root = Path(os.path.realpath(folder))
    pending = [("", str(root))]
    seen = {str(root)}
    while pending:
        prefix, real = pending.pop()
        with os.scandir(real) as found:
            children = sorted(found, key=lambda e: e.name)
        for child in children:
            path = f"{prefix}{child.name}"
            target = os.path.realpath(child.path) if child.is_symlink() else child.path
            if not _inside(target, root):
                problems.append(msgspec.structs.replace(_OUTSIDE, file=f"{shown}/{path}"))
                continue
            if child.is_dir():
                if child.name.startswith(".") or child.name in SKIPPED_FOLDERS or target in seen:
                    continue
                seen.add(target)
                pending.append((f"{path}/", target))
            elif child.name.lower().endswith(".md") and child.is_file():
                about = child.stat()
                yield _File(path, target, (about.st_mtime_ns, about.st_size, about.st_ino))


def _inside(real: str, root: Path) -> bool:
    return real == str(root) or real.startswith(f"{root}{os.sep}")


def _bytes(real: str) -> bytes | Problem:
    """The file's bytes, or why there are none. Never waits for a pipe."""
    try:
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(_LARGEST + 1)
    except OSError as e:
        return Problem(code="unreadable", severity="error", message=f"can't be read: {e.strerror}")


_OUTSIDE = Problem(
    code="symlink-outside",
    severity="warning",
    message="is a link that leaves the folder, and is not followed",
    hint="copy the file, or add its own folder to agent_dirs",
)
_NO_AGENT = Problem(
    code="no-frontmatter",
    severity="warning",
    message="has no frontmatter, so it is not an agent",
    hint="start it with a line ---, keys, and a line ---",
)


def _second(entry: Entry, first: Entry) -> Problem:
    message = f"has the id {entry.id!r} of {first.location}, which comes first"
    return Problem(code="duplicate-id", severity="warning", message=message, file=entry.location)


def _shown(folder: Path) -> str:
    """The folder as a person here would name it."""
    try:
        return str(folder.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(folder.absolute())
