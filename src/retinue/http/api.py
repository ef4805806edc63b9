"""The REST API as one FastAPI app: every subject's operations, their errors as problems, the document and its page."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route

from retinue.http import agents, health, keys, memory, questions, repositories, runs, steering, threads
from retinue.http.openapi import document
from retinue.http.routing import Guarded, Operation, Routes
from retinue.schema.errors import RetinueError
from retinue.web.problem import Fault, answer, internal, respond
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
_CODES = {400: "bad_request", 404: "no_such_path", 405: "method"}


def operations() -> list[Operation]:
    return [operation for subject in SUBJECTS for operation in subject.operations]


def surface(served: Served) -> Sequence[BaseRoute]:
    """What `retinue.asgi` puts in: the whole API below the root."""
    return [Mount("", api(served))]


def api(served: Served) -> FastAPI:
    app = FastAPI(
        title="Retinue",
        version=version("retinue"),
        description="Runs agents that are written as files.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.served = served
    app.router.route_class = Guarded
    for operation in operations():
        _add(app, operation, operation.path, shown=True)
        if "/variables/" in operation.path:  # S4 has them without a version
            _add(app, operation, operation.path.removeprefix("/v1"), shown=False)
    _add_document(app)
    app.add_exception_handler(RetinueError, _expected)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _bug)
    return app


def _add(app: FastAPI, operation: Operation, path: str, *, shown: bool) -> None:
    app.router.add_api_route(
        path,
        operation.endpoint,
        methods=[operation.method],
        tags=[operation.tag],
        summary=operation.endpoint.__name__.replace("_", " "),
        operation_id=f"{operation.tag}_{operation.endpoint.__name__}",
        response_model=None,
        status_code=next(iter(operation.returns)),
        include_in_schema=shown,
        openapi_extra={"x-scope": operation.scope} if operation.scope else {},
    )


def _add_document(app: FastAPI) -> None:
    made: list[bytes] = []

    async def openapi(_: Request) -> Response:
        if not made:
            made.append(msgspec.json.encode(document(app, operations())))
        return Response(made[0], media_type="application/json")

    async def docs(_: Request) -> Response:
        return Response(_PAGE.read_bytes(), headers={"Content-Security-Policy": _DOCS_POLICY}, media_type="text/html")

    app.add_route("/openapi.json", openapi, include_in_schema=False)
    app.add_route("/docs", docs, include_in_schema=False)


async def _expected(_: Request, error: Exception) -> Response:
    assert isinstance(error, RetinueError)
    return answer(error)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, headers = _CODES.get(error.status_code, "http"), dict(error.headers or {})
    if error.status_code == 405:  # of the routes with this path only the first one was asked
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    return respond(error.status_code, code, str(error.detail), headers=headers)


def _methods(request: Request) -> set[str]:
    routes: Sequence[BaseRoute] = request.app.router.routes
    fits = [r for r in routes if isinstance(r, Route) and r.matches(request.scope)[0] is not Match.NONE]
    return {method for route in fits if route.path == fits[0].path for method in route.methods or ()}


async def _bug(_: Request, __: Exception) -> Response:
    return internal()


async def _invalid(_: Request, error: Exception) -> Response:
    """What is wrong with a request, without repeating what was sent: it may hold secrets."""
    assert isinstance(error, RequestValidationError)
    found: Sequence[Any] = error.errors()
    faults = tuple(Fault(where=".".join(map(str, e["loc"])), message=str(e["msg"])) for e in found)
    text = "; ".join(f"{re.sub('^(query|body|path)[.]', '', f.where)}: {f.message}" for f in faults[:3])
    return respond(422, "invalid", text, faults=faults)
