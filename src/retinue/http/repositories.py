"""Repositories: how they fare, syncing them, and the webhooks that tell of pushes.

They are the installation's, so only keys of the tenant `default` see them. A webhook
has no key: its signature over the raw bytes is what proves it.
"""

from typing import Annotated

import msgspec
from fastapi import Path, Request
from starlette.responses import Response

from retinue.app.catalog import Synced
from retinue.app.repositories import status_of
from retinue.http.routing import Caller, Cursor, Limit, Routes, Server, Who, ok
from retinue.policy.webhook import Delivery, verify
from retinue.schema.errors import Denied, GitError, NotFound
from retinue.schema.ids import DEFAULT_TENANT
from retinue.sources.repository import secret
from retinue.web import pages
from retinue.web.auth import slow_down, too_often
from retinue.web.pages import Page
from retinue.web.served import Served

routes = Routes("repositories")
hooks = Routes("webhooks")

Name = Annotated[str, Path(max_length=512)]


class Repository(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As it is configured, in S0's spelling, and what its last sync came to."""

    name: str
    git_url: str
    branch: str
    prefix: str
    state: str
    origin: str
    commit: str | None
    checked: float | None
    agents: int
    problems: int
    error: str | None
    is_root: bool = False
    sync_interval: float = 0.0
    auth_type: str = "none"
    is_active: bool = True
    read_only: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What a delivery set off: a sync, nothing (another branch, another event), or nothing again."""

    delivery: str
    sync: bool
    duplicate: bool = False


@routes.on("GET", "/repositories", "repos:read", Page[Repository])
async def list_repositories(who: Who, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every configured repository."""
    return ok(pages.slice_of(_own(who), cursor, limit))


@routes.on("POST", "/syncs/{name:path}", "repos:write", Synced)
async def sync(who: Who, name: Name) -> Response:
    """Ask the repository's server for changes; the catalog has them when this answers."""
    _one(who, name)
    return ok((await who.served.syncing.ask(name))[0])


@routes.on("GET", "/repositories/{name:path}", "repos:read", Repository)
async def show(who: Who, name: Name) -> Response:
    """One repository."""
    return ok(_one(who, name))


def _own(who: Caller) -> list[Repository]:
    if who.tenant != DEFAULT_TENANT:
        return []
    return [msgspec.convert(row, Repository) for row in status_of(who.app.catalog)]


def _one(who: Caller, name: str) -> Repository:
    found = next((repository for repository in _own(who) if repository.name == name), None)
    if found is None:
        raise NotFound(f"there is no repository {name!r}")
    return found


@hooks.on("POST", "/webhooks/{repository:path}", None, Accepted, status=202, errors=(403,))
async def webhook(served: Server, request: Request, repository: Name) -> Response:
    """A delivery of GitHub, GitLab, Gitea or Forgejo. Pushes of the configured branch are synced at once."""
    clock = served.app.engine.runtime.clock
    delivery = _verified(served, repository, request, await request.body(), clock.now())
    if wait := served.limits.take(f"webhook:{repository}", clock.monotonic()):
        raise too_often(wait)
    if not await served.app.database.deliveries.first(repository, delivery.id, now=clock.now()):
        return ok(Accepted(delivery=delivery.id, sync=False, duplicate=True), 202)
    config = next(s.config for s in served.app.catalog.repositories if s.config.name == repository)
    wanted = delivery.commit is not None and delivery.branch == config.branch and config.is_active
    if wanted:
        served.syncing.ask(repository)
    return ok(Accepted(delivery=delivery.id, sync=wanted), 202)


def _verified(served: Served, repository: str, request: Request, body: bytes, now: float) -> Delivery:
    """The same answer for an unknown repository as for a bad signature: names are not told to strangers."""
    config = next((s.config for s in served.app.catalog.repositories if s.config.name == repository), None)
    try:
        if config is not None:
            return verify(request.headers, body, secret(config, "webhook_secret", served.app.environ), now=now)
    except (Denied, GitError):
        pass
    slow_down(served, request)
    raise Denied("no repository of this name has a secret that proves this delivery")
