"""What each file of a commit comes to: an agent, a problem, or nothing.

Decides from names and sizes first, so that hostile or unrelated files are never
read; the rest is read in one go and parsed. Nothing here knows how blobs are had.
"""

import contextlib
import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from retinue.definition.ids import agent_id, precedence
from retinue.definition.load import load_prompt
from retinue.ports.source import Entry
from retinue.schema.agent import Prompt
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem, Severity
from retinue.sources.directory import SKIPPED_FOLDERS, file_entries, prompt_paths
from retinue.sources.git_cache import Parsed
from retinue.sources.git_program import Progress
from retinue.sources.mirror import File

_LINK, _SUBMODULE = "120000", "160000"


def matters(path: str, file: File | None = None) -> bool:
    """Whether a file could be an agent, a prompt, or a link or submodule that somebody expects agents behind."""
    folder, _, name = path.rpartition("/")
    if not name.lower().endswith(".md") and ("." in name or (file and file.mode not in (_LINK, _SUBMODULE))):
        return False
    return not any(part in SKIPPED_FOLDERS or _hidden(part) for part in folder.split("/"))


def key_of(file: File) -> str:
    """Changes whenever what the file says, or what it is, does."""
    return f"{file.mode} {file.sha}"


def resolved(files: Mapping[str, Parsed], shown: Callable[[str], str]) -> tuple[dict[AgentId, Parsed], list[Problem]]:
    """The files that own each id, and every problem that belongs to no entry."""
    owners: dict[AgentId, str] = {}
    rivals: dict[AgentId, list[str]] = {}
    problems: list[Problem] = []
    for path, parsed in files.items():
        if parsed.problems:
            problems += parsed.problems
        for id in parsed.ids:
            if id in owners:
                rivals.setdefault(id, [owners[id]]).append(path)
            else:
                owners[id] = path
    for id, paths in rivals.items():
        owners[id], *others = sorted(set(paths), key=lambda path: (precedence(path), path))
        first = shown(owners[id])
        for path in others or [owners[id]]:
            problems.append(_problem("duplicate-id", shown(path), f"has the id {id!r} of {first}, which comes first"))
    problems.sort(key=lambda p: (p.file, p.line, p.column))
    return {id: files[path] for id, path in owners.items()}, problems


class Reader:
    """Parses files of one repository."""

    def __init__(
        self,
        blobs: Callable[[Iterable[str]], Iterator[bytes]],
        *,
        shown: Callable[[str], str],
        largest: int,
        progress: Progress | None,
    ) -> None:
        self._blobs = blobs
        self._shown = shown
        self._largest = largest
        self._progress = progress

    def read(self, changed: Mapping[str, File], again: Iterable[str], known: Mapping[str, Parsed]) -> dict[str, Parsed]:
        """What `changed` files, and known ones that must be looked at `again`, come to.

        Args:
            known: All other files, where prompts may be.
        """
        done = {path: self._judged(path, file) for path, file in changed.items()}
        pending = [path for path, parsed in done.items() if parsed.key and agent_id(path)] + list(again)
        with _uncollected() if len(pending) > 500 else contextlib.nullcontext():
            self._parse(pending, {**known, **done}, done)
        return done

    def _parse(self, pending: list[str], files: Mapping[str, Parsed], done: dict[str, Parsed]) -> None:
        """Parse in passes: an agent whose prompts are not read yet waits for the next."""
        texts: dict[str, bytes] = {}
        total = len(pending)
        while pending:
            unread: set[str] = set()
            later: list[str] = []
            for index, (path, text) in enumerate(zip(pending, self._contents(files, pending), strict=True)):
                lookup = _Prompts(path, files, texts, self._shown)
                parsed = self._parsed(path, files[path].key, text, lookup)
                if lookup.unread:
                    unread |= lookup.unread
                    later.append(path)
                else:
                    done[path] = parsed
                if self._progress and index % 256 == 0:
                    self._progress("parsing agents", index / total)
            if unread:
                texts.update(zip(unread, self._contents(files, unread), strict=True))
            pending = later

    def _contents(self, files: Mapping[str, Parsed], paths: Iterable[str]) -> Iterator[bytes]:
        return self._blobs(files[path].key.rpartition(" ")[2] for path in paths)

    def _judged(self, path: str, file: File) -> Parsed:
        """What can be said without reading; a parsed file that is empty may be read."""
        if not path.isprintable():
            name = ascii(path)[1:-1]
            return self._refused(name, "bad-name", "has control characters, or bytes that are not UTF-8, in its name")
        if not {".", ".."}.isdisjoint(path.split("/")):
            return self._refused(path, "bad-name", "has '.' or '..' in its path")
        if file.mode == _LINK:
            return self._refused(path, "symlink", "is a symbolic link, and those are not followed")
        if file.mode == _SUBMODULE:
            hint = "configure it as a repository of its own"
            return self._refused(path, "submodule", "is a submodule, and those are not fetched", hint)
        if file.size is not None and file.size <= self._largest:
            return Parsed(key_of(file))
        message = f"has {file.size} bytes; at most {self._largest} are read"
        id = agent_id(path)
        if id is None:
            return self._refused(path, "too-large", message)
        return self._rejected(path, id, "", "too-large", message)

    def _rejected(self, path: str, id: AgentId, key: str, code: str, message: str) -> Parsed:
        problem = _problem(code, self._shown(path), message, severity="error")
        entry = Entry(id=id, definition=None, problems=(problem,), location=problem.file)
        return Parsed.of(key, (entry,), (), ())

    def _refused(self, path: str, code: str, message: str, hint: str | None = None) -> Parsed:
        return Parsed("", problems=(_problem(code, self._shown(path), f"{message}; it is skipped", hint),))

    def _parsed(self, path: str, key: str, text: bytes, prompts: "_Prompts") -> Parsed:
        id = agent_id(path)
        assert id is not None
        return Parsed.of(key, *file_entries(text, self._shown(path), id, prompts), tuple(prompts.needs))


class _Prompts:
    """Looks prompts of one agent up among the files; notes what it looked for, and what must be read first."""

    def __init__(
        self, agent: str, files: Mapping[str, Parsed], texts: Mapping[str, bytes], shown: Callable[[str], str]
    ) -> None:
        self.needs: dict[str, None] = {}
        self.unread: set[str] = set()
        self._agent = agent
        self._files = files
        self._texts = texts
        self._shown = shown

    def __call__(self, name: str) -> Prompt | str | None:
        for path in prompt_paths(name, self._agent):
            self.needs[path] = None
            if path not in self._files or not self._files[path].key:
                continue
            if path in self._texts:
                return load_prompt(self._texts[path], file=self._shown(path), name=name)[0]
            self.unread.add(path)
            return Prompt(name=name, text="")
        return None


@contextlib.contextmanager
def _uncollected() -> Generator[None]:
    """Turn the collector off: thousands of new values that all stay would be looked at again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _hidden(folder: str) -> bool:
    return folder.startswith(".") and folder not in (".", "..")


def _problem(code: str, file: str, message: str, hint: str | None = None, *, severity: Severity = "warning") -> Problem:
    return Problem(code=code, severity=severity, message=message, file=file, hint=hint)
