"""API keys: made once, shown once, kept as a digest.

A token is 256 random bits, so one SHA-256 of it is as good as a slow hash: there
is nothing to guess. Its first part is public and finds the row.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf

from retinue.ports.clock import Clock
from retinue.ports.keys import ApiKey, Keys
from retinue.schema.errors import Denied, NotFound, UsageError
from retinue.schema.ids import DEFAULT_TENANT, Tenant
from retinue.web.scopes import ADMIN, checked, covers

_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TOKEN = re.compile(r"rtn_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_USED_EVERY = 3600.0
_ASKS_EVERY = 1.0
"""How late a revocation by another process is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who makes a request: a key, and whose data it may see."""

    key: str
    name: str
    tenant: Tenant
    scopes: tuple[str, ...]

    @property
    def is_operator(self) -> bool:
        """May act on the installation itself, and make keys of other tenants."""
        return self.tenant == DEFAULT_TENANT and ADMIN in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A new key. The token is told once and kept nowhere."""

    key: ApiKey
    token: str


class Keyring:
    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._known: dict[str, tuple[float, Principal]] = {}
        """Tokens' digests → until when nobody asks again, and whose they are."""

    async def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        tenant: str = DEFAULT_TENANT,
        expires: float | None = None,
        by: Principal | None = None,
    ) -> Made:
        """Make a key.

        Args:
            by: Who asks, when it is not the operator in person: no key gives what it has not.
        """
        wanted = checked(scopes)
        if not _TENANT.fullmatch(tenant):
            raise UsageError(f"{tenant!r} is no tenant", hint="lower-case letters, digits and hyphens, at most 63")
        if not name.strip():
            raise UsageError("a key needs a name", hint="say what it is for: ci, console, partner")
        now = self._clock.now()
        if expires is not None and expires <= now:
            raise UsageError("the key would be expired already")
        if by is not None and not by.is_operator:
            if tenant != by.tenant:
                raise Denied(f"the key {by.name} makes keys of its own tenant only")
            if beyond := [scope for scope in wanted if not _within(by.scopes, scope)]:
                raise Denied(f"the key {by.name} has no {', '.join(beyond)} to give")
        id = secrets.token_hex(6)
        token = f"rtn_{id}_{secrets.token_urlsafe(32)}"
        key = ApiKey(
            id=id,
            name=name,
            tenant=Tenant(tenant),
            scopes=wanted,
            digest=_digest(token),
            created_at=now,
            expires=expires,
        )
        await self._keys.add(key)
        return Made(key=key, token=token)

    async def verify(self, token: str) -> Principal | None:
        """Whose token it is; None when it is nobody's, or no longer good: at most a second ago."""
        found, digest, now = _TOKEN.fullmatch(token), _digest(token), self._clock.now()
        if (known := self._known.get(digest)) is not None and known[0] > now:
            return known[1]
        key = await self._keys.get(found[1]) if found else None
        if key is None or not hmac.compare_digest(key.digest, digest) or not self._is_good(key):
            self._known.pop(digest, None)
            return None
        if key.used_at is None or now - key.used_at > _USED_EVERY:
            await self._keys.used(key.id, now=now)
        principal = Principal(key=key.id, name=key.name, tenant=key.tenant, scopes=key.scopes)
        self._known[digest] = (min(now + _ASKS_EVERY, key.expires or inf), principal)
        return principal

    async def still_good(self, id: str) -> bool:
        key = await self._keys.get(id)
        return key is not None and self._is_good(key)

    async def all(self, tenant: Tenant | None) -> Sequence[ApiKey]:
        return await self._keys.all(tenant)

    async def revoke(self, tenant: Tenant | None, id: str) -> None:
        """Raises NotFound when the tenant has no such key that is good."""
        if not await self._keys.revoke(tenant, id, now=self._clock.now()):
            raise NotFound(f"there is no key {id}", hint="`retinue keys list` shows them")
        self._known.clear()

    async def first(self) -> Made | None:
        """A key for everything, when there is none at all."""
        return None if await self.any_good() else await self.create("first", (ADMIN,))

    async def any_good(self) -> bool:
        return any(self._is_good(key) for key in await self._keys.all(None))

    def _is_good(self, key: ApiKey) -> bool:
        return key.revoked_at is None and (key.expires is None or key.expires > self._clock.now())


def _within(granted: Sequence[str], scope: str) -> bool:
    subject, _, verb = scope.partition(":")
    return covers(granted, f"{subject}:write" if verb == "*" else scope)


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()
