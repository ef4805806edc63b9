"""Entries and snapshots in few words."""

from collections.abc import Callable

import msgspec
import pytest

from retinue.ports.source import Entry, Snapshot, SourceKind
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem


@pytest.fixture
def entry() -> Callable[..., Entry]:
    return _entry


@pytest.fixture
def snapshot() -> Callable[..., Snapshot]:
    """`snapshot("user", "user", "coder", entry("x", name="X"), namespace=…)`."""
    return _snapshot


def _entry(id: str, *, broken: bool = False, trusted: bool = True, **fields: object) -> Entry:
    definition = msgspec.convert({"id": id, "name": id, **fields}, AgentDefinition)
    wrong = Problem(code="bad-value", severity="error", message="is wrong", file=f"{id}.md", line=3)
    return Entry(
        id=AgentId(id),
        definition=None if broken else definition,
        problems=(wrong,) if broken else (),
        location=f"{id}.md",
        hash=definition.prompt,
        trusted=trusted,
    )


def _snapshot(
    name: str,
    kind: SourceKind,
    *entries: Entry | str,
    namespace: str | None = None,
    error: str | None = None,
    stale: bool = False,
    problems: tuple[Problem, ...] = (),
) -> Snapshot:
    made = [_entry(e) if isinstance(e, str) else e for e in entries]
    is_git = kind == "git"
    return Snapshot(
        name=name,
        kind=kind,
        entries={e.id: e for e in made},
        namespace=namespace,
        priority="namespaced" if namespace else "root" if is_git else "local",
        repository=name.partition(":")[2] if is_git else None,
        commit="c0ffee" if is_git else None,
        problems=problems,
        error=error,
        stale=stale,
    )
