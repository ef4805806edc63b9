"""What a tenant's threads used: steps, tokens, cost, by agent, day or status."""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from retinue.ports.store import Store, ThreadRow
from retinue.schema.ids import Tenant, ThreadId

By = Literal["agent", "day", "status"]
_PAGE = 1000


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """A line: threads that others started are counted with the one at their root."""

    name: str
    threads: int = 0
    tokens: int = 0
    cost: int = 0
    """Nano-dollars, of what has a price."""
    unpriced: int = 0
    """Threads with a request whose price is not known."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    total: Used
    lines: list[Used]


async def usage_of(
    store: Store, tenant: Tenant, *, by: By, since: float | None = None, until: float | None = None
) -> Usage:
    """Sums over threads that were created from `since` to `until`."""
    total, lines = Used(name="total"), dict[str, Used]()
    before = (until, ThreadId("")) if until is not None else None
    while page := await store.rows(tenant, roots_only=True, before=before, limit=_PAGE):
        for row in page:
            if since is not None and row.created_at < since:
                break
            name = _name(row, by)
            total, lines[name] = _add(total, row), _add(lines.get(name, Used(name=name)), row)
        else:
            before = (page[-1].created_at, page[-1].id)
            continue
        break
    return Usage(total=total, lines=sorted(lines.values(), key=lambda line: line.name))


def _name(row: ThreadRow, by: By) -> str:
    match by:
        case "agent":
            return row.listing.agent
        case "status":
            return row.listing.status
        case "day":
            return datetime.fromtimestamp(row.created_at, UTC).date().isoformat()


def _add(line: Used, row: ThreadRow) -> Used:
    cost = row.listing.cost
    return Used(
        name=line.name,
        threads=line.threads + 1,
        tokens=line.tokens + row.listing.tokens,
        cost=line.cost + (cost or 0),
        unpriced=line.unpriced + (cost is None),
    )
