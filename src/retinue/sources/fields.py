"""Turns fields that are no file (configuration, rows, Python) into entries."""

from collections.abc import Mapping

from retinue.definition.load import load_fields
from retinue.ports.source import Entry
from retinue.registry.records import canonical_fields
from retinue.schema.ids import AgentId


def fields_entry(fields: Mapping[str, object], *, location: str, id: str, trusted: bool = True) -> Entry:
    """One agent in S3's or our spelling; `id` is its address when the fields are broken, too."""
    loaded = load_fields(canonical_fields(fields), file=location, id=AgentId(id))
    return Entry(
        id=AgentId(id),
        definition=loaded.definition,
        problems=loaded.problems,
        location=location,
        hash=loaded.definition.hash if loaded.definition is not None else "",
        trusted=trusted,
    )


def slug_of(fields: Mapping[str, object]) -> str | None:
    """What addresses the agent: its slug, else its name in the form of one."""
    canonical = canonical_fields(fields)
    said = canonical.get("slug") or canonical.get("name")
    return "-".join(said.lower().split()) if isinstance(said, str) and said.strip() else None
