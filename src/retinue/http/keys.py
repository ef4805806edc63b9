"""API keys: make, list and revoke those of one's own tenant."""

from typing import Annotated

import msgspec
from pydantic import Field
from starlette.responses import Response

from retinue.http.routing import Cursor, Limit, Routes, Who, ok
from retinue.http.starting import Body
from retinue.ports.keys import ApiKey
from retinue.web import pages
from retinue.web.pages import Page

routes = Routes("keys")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    tenant: str
    scopes: tuple[str, ...]
    created_at: float
    expires: float | None
    revoked_at: float | None
    used_at: float | None


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    key: Key
    token: str
    """Told this once."""


class KeyBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: Annotated[list[str], Field(min_length=1, max_length=50)]
    tenant: Annotated[str | None, Field(description="Another one's: for operators only.")] = None
    expires: Annotated[float | None, Field(description="Seconds since the epoch.")] = None


@routes.on("GET", "/keys", "keys:read", Page[Key])
async def list_keys(who: Who, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The tenant's keys, also those that were revoked; never their tokens."""
    found = await who.served.keyring.all(who.tenant)
    return ok(pages.slice_of([shown(key) for key in found], cursor, limit))


@routes.on("POST", "/keys", "keys:write", NewKey, status=201)
async def create(who: Who, body: KeyBody) -> Response:
    """Make a key. It can do no more than the one that makes it."""
    made = await who.served.keyring.create(
        body.name, body.scopes, tenant=body.tenant or who.tenant, expires=body.expires, by=who.principal
    )
    return ok(NewKey(key=shown(made.key), token=made.token), 201, {"Location": f"/v1/keys/{made.key.id}"})


@routes.on("DELETE", "/keys/{key}", "keys:write", "", status=204)
async def revoke(who: Who, key: str) -> Response:
    """Revoke a key at once; its streams end within a heartbeat."""
    await who.served.keyring.revoke(who.tenant, key)
    return Response(status_code=204)


def shown(key: ApiKey) -> Key:
    facts = msgspec.structs.asdict(key)
    del facts["digest"]
    return Key(**facts)
