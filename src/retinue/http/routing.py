"""How an operation of the REST API is written down, and what every one of them shares.

A subject collects its operations in a `Routes`: path, scope, what comes back, what
can go wrong. From that come the route, its checks (key, scope, rate, idempotency)
and its page of the OpenAPI document, so that none of them can be forgotten.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid5

import msgspec
from fastapi import Depends, Query, Request
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from starlette.responses import Response

from retinue.app.retinue import Retinue
from retinue.ports.store import Store
from retinue.schema.ids import Tenant
from retinue.web.auth import authorize
from retinue.web.idempotency import once
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

    def new_id(self, purpose: str) -> str:
        return str(uuid5(self.once, purpose)) if self.once else self.app.engine.runtime.clock.new_id()


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _served(request: Request) -> Served:
    return served_by(request)


Who = Annotated[Caller, Depends(_caller)]
Server = Annotated[Served, Depends(_served)]
"""For operations that need no key."""


def served_by(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


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
        return tuple(sorted(statuses | ({409, 413} if self.method in WRITES else set[int]())))


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


class _Request(Request):
    """Reads JSON as the log does: no NaN, no lone surrogates, nothing that could not be written again."""

    async def json(self) -> object:
        try:
            return msgspec.json.decode(await self.body())
        except (msgspec.MsgspecError, UnicodeDecodeError) as e:
            raise HTTPException(400, f"the body is not JSON: {e}") from e


class Guarded(APIRoute):
    """Nobody gets to the endpoint without the scope, and no write with an idempotency key happens twice."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        scope: str | None = (self.openapi_extra or {}).get("x-scope")

        async def guarded(request: Request) -> Response:
            served, request = served_by(request), _Request(request.scope, request.receive)
            if scope is None:
                await request.body()
                return await handle(request)
            principal = await authorize(served, request, scope)

            async def carry_out(source: UUID | None) -> Response:
                request.state.caller = Caller(served=served, principal=principal, once=source)
                return await handle(request)

            if request.method not in WRITES:
                return await carry_out(None)
            await request.body()
            return await once(served, principal, request, carry_out)

        return guarded
