"""What HTTP surfaces keep: API keys, answers to requests that may come again, deliveries that were seen."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from retinue.schema.ids import Tenant


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is kept: the token itself is known to its holder alone."""

    id: str
    """The token's public part; what lists show and `revoke` takes."""
    name: str
    tenant: Tenant
    scopes: tuple[str, ...]
    digest: str
    """SHA-256 of the token."""
    created_at: float
    expires: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    """To the hour."""


class Keys(Protocol):
    async def add(self, key: ApiKey) -> None: ...
    async def get(self, id: str) -> ApiKey | None: ...
    async def all(self, tenant: Tenant | None) -> Sequence[ApiKey]:
        """Oldest first, also those that are revoked."""
        ...

    async def revoke(self, tenant: Tenant | None, id: str, *, now: float) -> bool:
        """False when the tenant has no such key, or it is revoked already."""
        ...

    async def used(self, id: str, *, now: float) -> None: ...


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a request with an idempotency key came to. `body` is sealed; None while it is being made by `owner`."""

    fingerprint: str
    owner: str
    status: int = 0
    body: str | None = None


class Answers(Protocol):
    async def begin(self, key: str, *, fingerprint: str, owner: str, now: float) -> Answer | None:
        """Take the key, or return what holds it.

        None: the request is the caller's to carry out. That is also so when the
        process that began the same request is another one, which is dead then.
        """
        ...

    async def finish(self, key: str, *, status: int, body: str) -> None: ...
    async def forget(self, key: str) -> None: ...


class Deliveries(Protocol):
    async def first(self, repository: str, id: str, *, now: float) -> bool:
        """Remember a delivery; False when it was seen before."""
        ...
