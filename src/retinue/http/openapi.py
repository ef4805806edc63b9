"""The OpenAPI document: FastAPI knows parameters and bodies, msgspec what comes back, and the operations the rest."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from retinue.http.routing import JSON, WRITES, Operation
from retinue.web import sse
from retinue.web.idempotency import HEADER, LONGEST, PATTERN
from retinue.web.problem import MEDIA_TYPE, Problem

_REF = "#/components/schemas/{name}"
_RETRY = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds."}}
_ONCE: dict[str, object] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "The same request with the same key happens once, and gets the same answer for a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": PATTERN},
}
_EVENT = {
    "type": "object",
    "description": "`data` is an EventFrame, of `delta` a DeltaFrame, of `reconnect` a ReconnectFrame, as JSON.",
    "properties": {
        **{name: {"type": "string"} for name in ("id", "event", "data")},
        "retry": {"type": "integer", "description": "Milliseconds."},
    },
}
_KEY = {"type": "http", "scheme": "bearer", "description": "An API key: `retinue keys create`."}


def document(found: Sequence[Operation]) -> dict[str, Any]:
    """The whole document, with every status that an operation may answer."""
    made = get_openapi(
        title="Retinue",
        version=version("retinue"),
        description="Runs agents that are written as files.",
        routes=[_route(operation) for operation in found],
    )
    types = [kind for op in found for kind in op.returns.values() if not isinstance(kind, str)]
    types += [Problem, sse.EventFrame, sse.DeltaFrame, sse.ReconnectFrame]
    schemas, components = msgspec.json.schema_components(types, schema_hook=_anything, ref_template=_REF)
    known = iter(schemas)
    for op in found:
        described = made["paths"][op.path.replace(":path", "")][op.method.lower()]
        described["responses"] = {
            **{str(s): _success(kind, known) for s, kind in op.returns.items()},
            **{str(s): _failure(s) for s in op.problems},
        }
        if op.scope is not None:
            described["security"] = [{"key": []}]
        if op.scope is not None and op.method in WRITES:
            described.setdefault("parameters", []).append(_ONCE)
    held = made.setdefault("components", {})
    held["schemas"] = {**_without_fastapis(held.get("schemas", {})), **components}
    held["securitySchemes"] = {"key": _KEY}
    return made


def _route(operation: Operation) -> APIRoute:
    return APIRoute(
        operation.path,
        operation.endpoint,
        methods=[operation.method],
        tags=[operation.tag],
        summary=operation.endpoint.__name__.replace("_", " "),
        operation_id=f"{operation.tag}_{operation.endpoint.__name__}",
        response_model=None,
        status_code=next(iter(operation.returns)),
        openapi_extra={"x-scope": operation.scope} if operation.scope else {},
    )


def _anything(_: type) -> dict[str, Any]:
    """The schema of `object`."""
    return {"description": "Any JSON value."}


def _success(kind: object, schemas: "Iterable[dict[str, Any]]") -> dict[str, object]:
    if kind == "":
        return {"description": "Done."}
    if isinstance(kind, str):
        schema = _EVENT if kind == sse.MEDIA_TYPE else {"type": "string"}
        return {"description": "Done.", "content": {kind: {"schema": schema}}}
    return {"description": "Done.", "content": {JSON: {"schema": next(iter(schemas))}}}


def _failure(status: int) -> Mapping[str, object]:
    schema = {"$ref": _REF.format(name="Problem")}
    failure: dict[str, object] = {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": schema}},
    }
    return {**failure, "headers": _RETRY} if status in (429, 503) else failure


def _without_fastapis(schemas: Mapping[str, object]) -> dict[str, object]:
    return {name: schema for name, schema in schemas.items() if name not in ("HTTPValidationError", "ValidationError")}
