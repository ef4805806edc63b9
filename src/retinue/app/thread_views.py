"""One thread as surfaces show it: where it stands, how its last run ended, its children and its files."""

import os
from pathlib import Path

import msgspec

from retinue.app import views
from retinue.app.retinue import Retinue
from retinue.ports.store import Store, ThreadRow
from retinue.runtime import attachments
from retinue.runtime.state import State
from retinue.schema.completion import Completion
from retinue.schema.errors import NotFound, ThreadNotFound, UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.threads import ThreadStarted
from retinue.schema.events.union import decode
from retinue.schema.ids import DEFAULT_TENANT, Tenant, ThreadId
from retinue.schema.thread import People

_TAIL = 32
"""A run's end is among the last events of a thread that rests."""
_ENDS = (b'{"type":"run.completed"', b'{"type":"run.failed"')
"""How such an event begins, so that no other is decoded."""


class Thread(views.Summary, frozen=True, kw_only=True):
    """A thread, with what it was started as; `completion` is the last run's, while no other is under way."""

    head: int
    source: str
    commit: str | None
    definition_hash: str
    workspace: str
    people: People
    completion: Completion | None = None


class Child(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """S4's registry entry."""

    reference: ThreadId
    agent: str
    name: str
    title: str | None
    description: str
    resumable: bool
    blocking: bool
    thread_name: str
    spawn_group_id: str
    created_at: float
    status: str
    parent_communication: str


class File(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    """Below the thread's own folder."""
    size: int
    modified_at: float


async def own_row(store: Store, tenant: Tenant, thread: str) -> ThreadRow:
    """A tenant's thread; another's is as unknown as one that never was."""
    row = await store.row(ThreadId(thread))
    if row is None or row.tenant != tenant:
        raise ThreadNotFound(f"there is no thread {thread!r}")
    return row


async def shown_thread(store: Store, row: ThreadRow) -> Thread:
    first = decode((await store.events(row.id, limit=1))[0].data)
    assert isinstance(first, ThreadStarted)
    completion = None
    if row.listing.status in ("completed", "failed", "terminated"):
        tail = await store.events(row.id, after=max(row.head - _TAIL, 0), limit=_TAIL)
        last = next((decode(e.data) for e in reversed(tail) if e.data.startswith(_ENDS)), None)
        completion = last.completion if isinstance(last, RunCompleted | RunFailed) else None
    return Thread(
        **msgspec.structs.asdict(views.summary(row)),
        head=row.head,
        source=first.pin.source,
        commit=first.pin.commit,
        definition_hash=first.pin.definition.hash,
        workspace=first.workspace,
        people=first.people,
        completion=completion,
    )


def children_of(state: State) -> list[Child]:
    """Oldest first."""
    return [
        Child(
            reference=reference,
            agent=child.started.agent,
            name=child.started.name,
            title=child.started.title,
            description=child.started.description,
            resumable=child.started.resumable,
            blocking=child.started.blocking,
            thread_name=child.started.title or child.started.name,
            spawn_group_id=child.started.spawn_group,
            created_at=child.at,
            status=child.shown,
            parent_communication="explicit" if child.started.explicit_communication else "implicit",
        )
        for reference, child in state.children.items()
    ]


def files_of(app: Retinue, thread: ThreadId) -> list[File]:
    """The thread's own files: attachments, uploads, and outputs that were too long."""
    root = app.engine.runtime.files(thread)
    found: list[File] = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            if not path.is_symlink() and not name.endswith(".part"):
                stat = path.stat()
                relative = str(path.relative_to(root))
                found.append(File(path=relative, size=stat.st_size, modified_at=stat.st_mtime))
    return sorted(found, key=lambda file: file.path)


def file_of(app: Retinue, thread: ThreadId, path: str) -> Path:
    """A file of the thread's own.

    Raises:
        NotFound: there is none, or the path leads elsewhere.
    """
    root = app.engine.runtime.files(thread).resolve()
    try:
        found = (root / path).resolve()
        if found.is_relative_to(root) and found.is_file():
            return found
    except (OSError, ValueError):  # too long, or with characters that no file has
        pass
    raise NotFound(f"the thread has no file {path!r}")


def keep_file(app: Retinue, thread: ThreadId, name: str, data: bytes) -> FileAttached:
    """Keep an upload; a message that names its path attaches it."""
    runtime = app.engine.runtime
    kept = attachments.store(runtime.files(thread), name, data, at=runtime.clock.now())
    return msgspec.structs.replace(kept, path=str(Path(kept.path).relative_to(runtime.files(thread))))


def attached(app: Retinue, thread: ThreadId, paths: tuple[str, ...]) -> tuple[FileAttached, ...]:
    """The events of attaching files that the thread has."""
    if len(paths) > attachments.MAX_FILES:
        raise UsageError(f"{len(paths)} attachments are more than {attachments.MAX_FILES}")
    runtime = app.engine.runtime
    kept: list[FileAttached] = []
    for path in paths:
        file = file_of(app, thread, path)
        name = file.name.partition("-")[2] if file.parent.name == attachments.FOLDER else file.name
        event = attachments.store(runtime.files(thread), name or file.name, file.read_bytes(), at=runtime.clock.now())
        kept.append(event)
    return tuple(kept)


def workspace_for(app: Retinue, tenant: Tenant, thread: ThreadId, wanted: str | None) -> str:
    """The folder that a server's thread works in: the one asked for if `serve.workspaces` has it, else its own.

    Raises:
        UsageError: the folder is not one that requests may name.
    """
    if wanted is None:
        own = app.data / "workspaces" / thread
        own.mkdir(parents=True, exist_ok=True)
        return str(own.resolve())
    listed = app.settings.serve.workspaces
    allowed = [w.replace("{tenant}", tenant) for w in listed if "{tenant}" in w or tenant == DEFAULT_TENANT]
    try:
        folder = Path(wanted).resolve()
        if folder.is_dir() and any(folder.is_relative_to(Path(root).resolve()) for root in allowed):
            return str(folder)
    except (OSError, ValueError):
        pass
    raise UsageError(
        f"{wanted!r} is no folder that requests may name", hint="the operator lists them in serve.workspaces"
    )
