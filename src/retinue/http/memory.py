"""Memory: what a tenant's agents remember across runs."""

from typing import Annotated, Any

import msgspec
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from retinue.http.routing import Cursor, Limit, Routes, Who, ok
from retinue.http.starting import Body
from retinue.ports.memory import MemoryItem
from retinue.schema.errors import NotFound, UsageError
from retinue.web import pages
from retinue.web.pages import Page

routes = Routes("memory")

Namespace = Annotated[str, Query(min_length=1, max_length=512, description="An agent's id, or a shared namespace.")]
Key = Annotated[str, Query(min_length=1, max_length=512)]


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    key: str
    value: msgspec.Raw
    """Any JSON value."""
    expires: float | None
    updated_at: float
    taints: tuple[str, ...]


class MemoryBody(Body):
    value: Annotated[Any, Field(description="Any JSON value.")]
    expires: Annotated[float | None, Field(description="Seconds since the epoch; not a past time.")] = None


@routes.on("GET", "/memory", "memory:read", Page[Remembered])
async def list_memory(
    who: Who,
    namespace: Annotated[str | None, Query(min_length=1, max_length=512)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """What is remembered and has not expired, by namespace and key."""
    now = who.app.engine.runtime.clock.now()
    found = await who.app.database.memory.list(who.tenant, namespace, now=now)
    return ok(pages.slice_of([_shown(item) for item in found], cursor, limit))


@routes.on("GET", "/memory/item", "memory:read", Remembered, errors=(404,))
async def load(who: Who, namespace: Namespace, key: Key) -> Response:
    """One value."""
    now = who.app.engine.runtime.clock.now()
    item = await who.app.database.memory.load(who.tenant, namespace, key, now=now)
    if item is None:
        raise NotFound(f"{namespace!r} remembers no {key!r}")
    return ok(_shown(item))


@routes.on("PUT", "/memory/item", "memory:write", Remembered)
async def save(who: Who, namespace: Namespace, key: Key, body: MemoryBody) -> Response:
    """Remember a value in place of what was there."""
    now = who.app.engine.runtime.clock.now()
    if body.expires is not None and body.expires <= now:
        raise UsageError("expires is past; nothing was saved")
    value = msgspec.json.encode(body.value)
    item = MemoryItem(namespace=namespace, key=key, value=value, expires=body.expires, updated_at=now)
    await who.app.database.memory.save(who.tenant, item)
    return ok(_shown(item))


@routes.on("DELETE", "/memory/item", "memory:write", "", status=204, errors=(404,))
async def forget(who: Who, namespace: Namespace, key: Key) -> Response:
    """Forget one value."""
    if not await who.app.database.memory.delete(who.tenant, namespace, key):
        raise NotFound(f"{namespace!r} remembers no {key!r}")
    return Response(status_code=204)


def _shown(item: MemoryItem) -> Remembered:
    return Remembered(
        namespace=item.namespace,
        key=item.key,
        value=msgspec.Raw(item.value),
        expires=item.expires,
        updated_at=item.updated_at,
        taints=item.taints,
    )
