"""Agents: the catalog as the tenant sees it, and its custom agents (S3's registry)."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import Body, Query
from starlette.responses import Response

from retinue.app import agent_views
from retinue.app.agent_views import Agent, ResolvedAgent, Shadow
from retinue.app.views import shown_definition
from retinue.http.routing import Caller, Cursor, Limit, Routes, Who, ok
from retinue.ports.records import AgentRecord
from retinue.schema.agent import AgentDefinition, Category
from retinue.sources.builtin import builtin_slugs
from retinue.sources.database import CustomAgents
from retinue.web import pages
from retinue.web.pages import Page

routes = Routes("agents")

View = Literal["usual", "visible", "subagent_types", "all"]
Fields = Annotated[dict[str, Any], Body(description="S3's fields, in its spelling or ours.")]
Override = Annotated[bool | None, Query(description="Whether it may replace a built-in agent of its slug.")]


class CustomAgent(AgentRecord, frozen=True, kw_only=True):
    """A row of the database; times and `is_built_in` are set by us."""

    is_built_in: bool = False


class ShownAgent(msgspec.Struct, frozen=True, kw_only=True):
    agent: Agent
    definition: AgentDefinition | None
    shadows: list[Shadow]
    custom: CustomAgent | None


@routes.on("GET", "/agents", "agents:read", Page[Agent])
async def list_agents(
    who: Who,
    category: Category | None = None,
    source: Annotated[str | None, Query(max_length=512, description="A source's name or kind.")] = None,
    view: Annotated[View, Query(description="visible: in display order; all: also hidden and shadowed.")] = "usual",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The agents of every source, also those that are broken or untrusted."""
    catalog = who.app.catalog.of(who.tenant)
    found = agent_views.listed(catalog, category=category, source=source, everything=view == "all")
    agents = [agent_views.agent(entry.found, entry.shadowed_by) for entry in found]
    if view in ("visible", "subagent_types"):
        shown = catalog.visible() if view == "visible" else catalog.subagent_types()
        by_id = {agent.id: agent for agent in agents if agent.shadowed_by is None}
        agents = [by_id[definition.id] for definition in shown if definition.id in by_id]
    return ok(pages.slice_of(agents, cursor, limit))


@routes.on("GET", "/agents/resolve", "agents:read", ResolvedAgent, errors=(404, 409))
async def resolve(who: Who, name: Annotated[str, Query(min_length=1, max_length=512)]) -> Response:
    """Which agent a name means, and each place that was tried."""
    resolved = agent_views.resolved_agent(who.app.catalog.of(who.tenant).resolve(name))
    return ok(msgspec.structs.replace(resolved, agent=shown_definition(resolved.agent)))


@routes.on("GET", "/agents/{agent:path}", "agents:read", ShownAgent, errors=(409,))
async def show(who: Who, agent: str) -> Response:
    """One agent by id, slug or a custom agent's own id; also one that can't run."""
    record = await _custom(who).get(agent)
    match = who.app.catalog.of(who.tenant).match(record.slug if record else agent)
    own = record if record is not None and match.found.snapshot.kind == "database" else None
    definition = match.found.definition
    return ok(
        ShownAgent(
            agent=agent_views.agent(match.found),
            definition=shown_definition(definition) if definition else None,
            shadows=agent_views.shadows(match.shadows),
            custom=_shown(own) if own else None,
        )
    )


@routes.on("POST", "/agents", "agents:write", CustomAgent, status=201)
async def create(who: Who, fields: Fields, override: Override = None) -> Response:
    """Add a custom agent; all that is wrong with it is told at once."""
    record = await _custom(who).create(fields, override=bool(override))
    await who.app.catalog.reload(["database"])
    return ok(_shown(record), 201, {"Location": f"/v1/agents/{record.slug}"})


@routes.on("PATCH", "/agents/{agent:path}", "agents:write", CustomAgent)
async def update(who: Who, agent: str, fields: Fields, override: Override = None) -> Response:
    """Put fields over those of a custom agent; null takes one back. Built-in agents can't be changed."""
    record = await _custom(who).update(agent, fields, override=override)
    await who.app.catalog.reload(["database"])
    return ok(_shown(record))


@routes.on("DELETE", "/agents/{agent:path}", "agents:write", CustomAgent)
async def delete(who: Who, agent: str) -> Response:
    """Remove a custom agent. Threads that run it go on with what they have pinned."""
    record = await _custom(who).delete(agent)
    await who.app.catalog.reload(["database"])
    return ok(_shown(record))


def _custom(who: Caller) -> CustomAgents:
    clock = who.app.engine.runtime.clock
    return CustomAgents(
        who.app.database.records,
        builtin=builtin_slugs(),
        now=clock.now,
        new_id=lambda: who.new_id("agent"),
        tenant=who.tenant,
    )


def _shown(record: AgentRecord) -> CustomAgent:
    return CustomAgent(**msgspec.structs.asdict(record))
