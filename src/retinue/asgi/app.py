"""Puts the surfaces of a server together into one ASGI app, behind one door.

A surface is a function that makes routes for what is served; adding one is a line
in `SURFACES`. The last one has the root, so that the others come before it.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from retinue.web.guard import Guard
from retinue.web.idempotency import HEADER
from retinue.web.served import Served

Surface = Callable[[Served], Sequence[BaseRoute]]

SURFACES: tuple[str, ...] = ("retinue.a2a_server.surface:surface", "retinue.http.api:surface")


def create(served: Served) -> ASGIApp:
    """The app to hand to a server. `served` stays the caller's to close."""
    app: ASGIApp = Router([route for name in SURFACES for route in _surface(name)(served)])
    if origins := served.settings.origins:
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID", HEADER],
            expose_headers=["Location", "Retry-After"],
        )
    return Guard(app, served)


def _surface(name: str) -> Surface:
    module, _, attribute = name.partition(":")
    made: Surface = getattr(import_module(module), attribute)
    return made
