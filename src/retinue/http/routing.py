"""How an operation of the REST API is written down, and what every one of them shares.

A subject collects its operations in a `Routes`: path, scope, what comes back, what
can go wrong. From that come its checks (key, scope, rate, idempotency; `retinue.http.api`)
and its page of the OpenAPI document, so that none of them can be forgotten.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid5

import msgspec
from fastapi import Depends, Query
from starlette.responses import Response

from retinue.app.retinue import Retinue
from retinue.app.thread_views import own_row
from retinue.ports.store import Store, ThreadRow
from retinue.schema.ids import Tenant
from retinue.web.keys import Principal
from retinue.web.served import Served

JSON = "application/json"
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
ALWAYS = (400, 421, 422, 429, 503)
_F = TypeVar("_F", bound=Callable[..., Coroutine[Any, Any, Response]])

Limit = Annotated[int, Query(ge=1, le=500, description="The most items a page may have.")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and what they may use: the app, as their tenant sees it."""

    served: Served
    principal: Principal
    once: UUID | None = None
    """What new ids derive from, when the request must happen once."""

    @property
    def app(self) -> Retinue:
        return self.served.app

    @property
    def store(self) -> Store:
        return self.served.app.engine.runtime.store

    @property
    def tenant(self) -> Tenant:
        return self.principal.tenant

    @property
    def signature(self) -> str:
        """How what they did is signed in logs of threads."""
        return f"key {self.principal.name}"

    async def row(self, thread: str) -> ThreadRow:
        """A thread of theirs; another's is as unknown as one that never was."""
        return await own_row(self.store, self.tenant, thread)

    def new_id(self, purpose: str) -> str:
        return str(uuid5(self.once, purpose)) if self.once else self.app.engine.runtime.clock.new_id()


def _given() -> None:
    """Not a part of the document."""


Who = Annotated[Caller, Depends(_given)]
Server = Annotated[Served, Depends(_given)]
"""For operations that need no key."""


def ok(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, dict(headers or {}), JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    method: str
    path: str
    endpoint: Callable[..., Coroutine[Any, Any, Response]]
    tag: str
    scope: str | None
    """None: no key is needed."""
    returns: Mapping[int, object]
    """Status → a type that msgspec knows, or a media type as text."""
    errors: tuple[int, ...]

    @property
    def problems(self) -> tuple[int, ...]:
        """Every status of a failure."""
        statuses = {*ALWAYS, *self.errors, *((401, 403) if self.scope else ())}
        statuses |= {404} if "{" in self.path else set[int]()
        return tuple(sorted(statuses | ({408, 409, 413} if self.method in WRITES else set[int]())))


@dataclass(slots=True)
class Routes:
    """The operations of one subject, in the order in which they are tried."""

    tag: str
    operations: list[Operation] = field(default_factory=list[Operation])

    def on(
        self,
        method: str,
        path: str,
        scope: str | None,
        returns: object,
        *,
        status: int = 200,
        also: Mapping[int, object] | None = None,
        errors: tuple[int, ...] = (),
    ) -> Callable[[_F], _F]:
        """Register the function below as an operation under `/v1`."""

        def register(endpoint: _F) -> _F:
            self.operations.append(
                Operation(
                    method=method,
                    path=f"/v1{path}",
                    endpoint=endpoint,
                    tag=self.tag,
                    scope=scope,
                    returns={status: returns, **(also or {})},
                    errors=errors,
                )
            )
            return endpoint

        return register
