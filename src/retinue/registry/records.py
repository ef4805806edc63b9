"""Custom agents (S3): their fields in one spelling, and every check before a row is written.

Pure: `retinue.sources.database` reads and writes the rows.
"""

import re
from collections.abc import Collection, Mapping

import msgspec

from retinue.definition.keys import find
from retinue.definition.values import LARGEST, folded
from retinue.ports.records import AgentRecord

_OURS = frozenset({"id", "isbuiltin", "createdat", "updatedat"})
_SLUG = re.compile(r"[a-z0-9-]+")
DEFAULT_TEMPERATURE = 0.7


def canonical_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """S3's spelling, camelCase or ours → canonical keys; what only we set is dropped."""
    canonical: dict[str, object] = {}
    for key, value in fields.items():
        name = folded(key)
        if name in _OURS:
            continue
        if name == "allowedsubagenttypes" and value == []:
            continue  # S3: an empty list means all, which for us is no list
        canonical[_canonical(key)] = value
    return canonical


CHECKED = frozenset({"slug", "max_steps"})
"""Keys of which `check` alone says what is wrong."""


def check(
    fields: Mapping[str, object], *, taken: Mapping[str, str], builtin: Collection[str], id: str, override: bool
) -> tuple[str, ...]:
    """Everything that keeps canonical `fields` from being a row, in S3's words.

    Args:
        taken: The slugs of the database's agents → their ids.
        builtin: The slugs of the built-in agents, which only `override` may replace.
        id: The row being written; its own slug is not a collision.
    """
    errors: list[str] = []
    slug = _text(fields, "slug")
    if not _text(fields, "name"):
        errors.append("Name is required")
    if not slug:
        errors.append("Slug is required")
    elif not _SLUG.fullmatch(slug):
        errors.append("Slug must be lowercase alphanumeric with hyphens only")
    if not _text(fields, "provider"):
        errors.append("ProviderId is required")
    if not _text(fields, "model"):
        errors.append("ModelId is required")
    steps = fields.get("max_steps", 1)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        errors.append("MaxIterations must be at least 1")
    elif steps > LARGEST:
        errors.append(f"MaxIterations must be at most {LARGEST}")
    if slug and taken.get(slug, id) != id:
        errors.append(f"Slug '{slug}' is already in use")
    elif slug in builtin and not override:
        errors.append(f"Slug '{slug}' is a built-in agent's; replacing it needs override")
    return tuple(errors)


def new_record(
    fields: Mapping[str, object], *, id: str, now: float, tenant: str = "default", override: bool = False
) -> AgentRecord:
    """A row for checked, canonical `fields`; the time is ours to set."""
    kept = {"temperature": DEFAULT_TEMPERATURE, **fields}
    return AgentRecord(id=id, slug=_text(fields, "slug"), fields=kept, created_at=now, tenant=tenant, override=override)


def changed_record(
    record: AgentRecord, fields: Mapping[str, object], *, now: float, override: bool | None = None
) -> AgentRecord:
    """`record` with `fields` over its own; a field set to null goes back to its default."""
    said = {_meaning(key) for key in fields}
    kept = {key: value for key, value in record.fields.items() if _meaning(key) not in said}
    merged = {key: value for key, value in {**kept, **fields}.items() if value is not None}
    return msgspec.structs.replace(
        record,
        slug=_text(merged, "slug"),
        fields=merged,
        updated_at=now,
        override=record.override if override is None else override,
    )


def _canonical(key: str) -> str:
    """The key's own name; a variant that is read differently (`IsVisible`) keeps its spelling."""
    row = find(key)
    return row[0].name if row is not None and row[1] is row[0].kind else key


def _meaning(key: str) -> str:
    row = find(key)
    return row[0].name if row is not None else key


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value.strip() if isinstance(value, str) else ""
