"""The REST API as one ASGI app: finds the operation, checks who asks, and carries it out; the document and its page.

Failures are exceptions that `retinue.web.guard` answers.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, compile_path
from starlette.types import Receive, Scope, Send

from retinue.http import agents, health, keys, memory, questions, repositories, runs, steering, threads
from retinue.http.binding import Binding
from retinue.http.routing import WRITES, Caller, Operation, Routes
from retinue.web.auth import authorize
from retinue.web.idempotency import once
from retinue.web.problem import Refused
from retinue.web.served import Served

SUBJECTS: tuple[Routes, ...] = (
    health.routes,
    agents.routes,
    runs.routes,
    threads.routes,
    steering.routes,
    questions.routes,
    memory.routes,
    repositories.routes,
    repositories.hooks,
    keys.routes,
)
_PAGE = Path(__file__).parent / "docs.html"
_DOCS_POLICY = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def operations() -> list[Operation]:
    return [operation for subject in SUBJECTS for operation in subject.operations]


def surface(served: Served) -> Sequence[BaseRoute]:
    """What `retinue.asgi` puts in: the whole API below the root."""
    return [Mount("", Api(served))]


class _Place:
    """A path, and what can be done there."""

    def __init__(self, path: str) -> None:
        self.pattern: re.Pattern[str] = compile_path(path)[0]
        self.methods: dict[str, tuple[Operation, Binding]] = {}


class Api:
    def __init__(self, served: Served, found: Sequence[Operation] = ()) -> None:
        self._served = served
        self._operations = found or operations()
        self._places: dict[str, dict[str, _Place]] = {}
        """By the first word of the path after the version, then by path."""
        self._document = b""
        for operation in self._operations:
            self._add(operation, operation.path)
            if "/variables/" in operation.path:  # S4 has them without a version
                self._add(operation, operation.path.removeprefix("/v1"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = self._page(request) or await self._carry_out(request)
        await response(scope, receive, send)

    def _add(self, operation: Operation, path: str) -> None:
        place = self._places.setdefault(_word(path), {}).setdefault(path, _Place(path))
        place.methods[operation.method] = (operation, Binding(operation.endpoint, path))

    def _page(self, request: Request) -> Response | None:
        match request.method, request.scope["path"]:
            case "GET", "/openapi.json":
                return Response(self._described(), media_type="application/json")
            case "GET", "/docs":
                headers = {"Content-Security-Policy": _DOCS_POLICY}
                return Response(_PAGE.read_bytes(), headers=headers, media_type="text/html")
            case _:
                return None

    def _described(self) -> bytes:
        if not self._document:
            from retinue.http.openapi import document

            self._document = msgspec.json.encode(document(self._operations))
        return self._document

    async def _carry_out(self, request: Request) -> Response:
        """Nobody gets to an endpoint without its scope, and no write with an idempotency key happens twice."""
        operation, binding, path = self._found(request)
        served, given = self._served, dict[type, Any]({Request: request, Served: self._served})
        if operation.scope is None:
            return await operation.endpoint(**await binding.arguments(request, path, given))
        principal = await authorize(served, request, operation.scope)

        async def carry_out(source: UUID | None) -> Response:
            given[Caller] = Caller(served=served, principal=principal, once=source)
            return await operation.endpoint(**await binding.arguments(request, path, given))

        if operation.method not in WRITES:
            return await carry_out(None)
        await request.body()  # also one that nobody wants must fit
        return await once(served, principal, request, carry_out)

    def _found(self, request: Request) -> tuple[Operation, Binding, dict[str, str]]:
        path, allowed = request.scope["path"], dict[str, None]()
        for place in self._places.get(_word(path), {}).values():
            if (match := place.pattern.match(path)) is None:
                continue
            if (found := place.methods.get(request.method)) is not None:
                return *found, match.groupdict()
            allowed = allowed or dict.fromkeys(sorted(place.methods))
        if not allowed:
            raise Refused(404, "no_such_path", "there is nothing here", hint="/docs shows what there is")
        said = f"{request.method[:20]} can't be done here"
        raise Refused(405, "method", said, headers={"Allow": ", ".join(allowed)})


def _word(path: str) -> str:
    """`threads` of `/v1/threads/1`, and of `/threads/1`."""
    return path.removeprefix("/v1").split("/", 2)[1] if path.count("/") else ""
