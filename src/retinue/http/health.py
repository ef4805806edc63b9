"""Whether the server lives and is ready, what it has counted, and what a tenant used."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated

import msgspec
from fastapi import Query
from starlette.responses import Response

from retinue.app.usage import By, Usage, usage_of
from retinue.http.routing import Routes, Server, Who, ok
from retinue.schema.errors import RetinueError
from retinue.web.problem import Refused

routes = Routes("server")
VERSION = version("retinue")
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    version: str


@routes.on("GET", "/health", None, Health)
async def health() -> Response:
    """The process answers."""
    return ok(Health(status="ok", version=VERSION))


@routes.on("GET", "/readiness", None, Health)
async def readiness(served: Server) -> Response:
    """Requests can be served: the database answers, and the server is not closing."""
    try:
        await served.app.engine.runtime.store.next_due()
    except RetinueError as e:
        raise Refused(503, "not_ready", "the database does not answer", headers={"Retry-After": "1"}) from e
    if served.closing.is_set():
        raise Refused(503, "closing", "the server is closing", headers={"Retry-After": "1"})
    return ok(Health(status="ready" if served.app.engine.drives else "standing by", version=VERSION))


@routes.on("GET", "/metrics", "metrics:read", "text/plain")
async def metrics(who: Who) -> Response:
    """Counters in the text format of Prometheus."""
    gauges = {
        ("streams", ""): len(who.served.streams),
        ("threads_driven", ""): who.app.driven,
        ("agents", ""): len(who.app.catalog.current.usable),
        ("syncs_total", ""): who.served.syncing.count,
    }
    return Response(_text({**gauges, **who.served.counters}), media_type=METRICS)


@routes.on("GET", "/usage", "threads:read", Usage)
async def usage(
    who: Who,
    by: By = "agent",
    since: Annotated[float | None, Query(ge=0, le=1e11, description="Seconds since the epoch.")] = None,
    until: Annotated[float | None, Query(ge=0, le=1e11)] = None,
) -> Response:
    """Threads, tokens and cost of the tenant; what children used counts with their root."""
    return ok(await usage_of(who.store, who.tenant, by=by, since=since, until=until))


def _text(values: Mapping[tuple[str, str], int]) -> str:
    lines: list[str] = []
    for (name, labels), value in sorted(values.items()):
        full = f"retinue_{name}"
        kind = f"# TYPE {full} {'counter' if name.endswith('_total') else 'gauge'}"
        if kind not in lines:
            lines.append(kind)
        lines.append(f"{full}{{{labels}}} {value}" if labels else f"{full} {value}")
    return "\n".join(lines) + "\n"
