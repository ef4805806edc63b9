"""Threads: start, list, show, speak to, follow, fork and export them. Steering is `retinue.http.steering`."""

from typing import Annotated, Literal

from fastapi import Header, Query
from pydantic import Field
from starlette.responses import Response

from retinue.app import views
from retinue.app.conversation import Entry, conversation, markdown
from retinue.app.thread_views import Child, Thread, attached, children_of, shown_thread
from retinue.app.threads import read_log, tree_of
from retinue.http.routing import Cursor, Limit, Routes, Who, ok
from retinue.http.starting import LONGEST_WAIT, Body, Run, Said, StartBody, outcome, start
from retinue.runtime import attachments
from retinue.schema.ids import ThreadId
from retinue.schema.thread import ThreadStatus
from retinue.web import pages, sse
from retinue.web.pages import Page

routes = Routes("threads")


class MessageBody(Body):
    message: Said
    side: Annotated[Literal["a", "b"], Field(description="Who says it; b is the human.")] = "b"
    silent: Annotated[bool, Field(description="Only context: no word of the user's.")] = False
    attachments: Annotated[list[str], Field(max_length=64, description="Paths of the thread's files.")] = []
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the completion.")] = 0.0


class ForkBody(Body):
    at: Annotated[int | None, Field(ge=1, le=2**53, description="The last event to keep; default all.")] = None
    message: Said | None = None
    model: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    prompt: Annotated[str | None, Field(max_length=2_000_000)] = None
    agent: Annotated[str | None, Field(min_length=1, max_length=512)] = None


@routes.on("POST", "/threads", "threads:write", Thread, status=201, errors=(404,))
async def create(who: Who, body: StartBody) -> Response:
    """Start a thread with its first message. It is durable, and runs, when this answers."""
    thread = await start(who, body)
    row = await who.row(thread)
    return ok(await shown_thread(who.store, row), 201, {"Location": f"/v1/threads/{thread}"})


@routes.on("GET", "/threads", "threads:read", Page[views.Summary])
async def list_threads(
    who: Who,
    status: Annotated[list[ThreadStatus], Query()] = [],  # noqa: B006 (FastAPI copies it)
    agent: Annotated[str | None, Query(max_length=512)] = None,
    root: Annotated[str | None, Query(max_length=64, description="Of this tree.")] = None,
    parent: Annotated[str | None, Query(max_length=64, description="Started by this one.")] = None,
    all: Annotated[bool, Query(description="Also threads that others started.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The newest threads first."""
    rows = await who.store.rows(
        who.tenant,
        status=status,
        agent=agent,
        root=ThreadId(root) if root is not None else None,
        parent=ThreadId(parent) if parent is not None else None,
        roots_only=not (all or root or parent),
        before=pages.position(cursor, tuple[float, ThreadId]),
        limit=limit + 1,
    )
    found = [views.summary(row) for row in rows]
    return ok(pages.page(found, limit, lambda thread: (thread.created_at, thread.id)))


@routes.on("GET", "/threads/{thread}", "threads:read", Thread)
async def show(who: Who, thread: str) -> Response:
    """One thread: its status, what it used, and how its last run ended."""
    return ok(await shown_thread(who.store, await who.row(thread)))


@routes.on("POST", "/threads/{thread}/messages", "threads:write", Run, also={202: Run})
async def send(who: Who, thread: str, body: MessageBody) -> Response:
    """Say something: it joins the run under way or starts one. With `wait`, the completion that follows."""
    row = await who.row(thread)
    files = attached(who.app, row.id, tuple(body.attachments))
    text = body.message + attachments.listed(tuple(file.path for file in files))
    id = who.new_id("message")
    await who.app.engine.send(row.id, text, id=id, side=body.side, silent=body.silent, files=files)
    return await outcome(who, row.id, after=row.head, seconds=body.wait)


@routes.on("GET", "/threads/{thread}/messages", "threads:read", Page[Entry])
async def messages(who: Who, thread: str, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The conversation as people read it: messages, answers, calls and their outcomes, oldest first."""
    row = await who.row(thread)
    return ok(pages.slice_of(conversation(await read_log(who.store, row.id)), cursor, limit))


@routes.on("GET", "/threads/{thread}/events", "threads:read", sse.MEDIA_TYPE)
async def events(
    who: Who,
    thread: str,
    after: Annotated[str, Query(max_length=sse.LONGEST, pattern=sse.PLACES, description="A number, or an id.")] = "",
    tree: Annotated[bool, Query(description="Also its children's.")] = False,
    live: Annotated[bool, Query(description="False: end when the log was sent.")] = True,
    last_event_id: Annotated[str, Header(max_length=sse.LONGEST, pattern=sse.PLACES)] = "",
) -> Response:
    """Server-sent events from any point: what is in the log, then what happens, deltas of text included."""
    row = await who.row(thread)
    place = sse.places(last_event_id or after, row.id)
    return sse.EventStream(who.served, who.principal, row.id, after=place, tree=tree, live=live)


@routes.on("GET", "/threads/{thread}/children", "threads:read", Page[Child])
async def children(who: Who, thread: str, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The threads it started: S4's child registry."""
    row = await who.row(thread)
    return ok(pages.slice_of(children_of(await who.app.engine.state(row.id)), cursor, limit))


@routes.on("GET", "/threads/{thread}/tree", "threads:read", views.Node)
async def tree(who: Who, thread: str) -> Response:
    """The thread and everything below it; tokens and cost of a node include what is below."""
    row = await who.row(thread)
    return ok(await tree_of(who.store, row.id, now=who.app.engine.runtime.clock.now()))


@routes.on("POST", "/threads/{thread}/fork", "threads:write", Thread, status=201)
async def fork(who: Who, thread: str, body: ForkBody) -> Response:
    """Another thread with this one's log up to an event. Files of the workspace are not rewound."""
    row = await who.row(thread)
    forked = await who.app.engine.fork(
        row.id,
        at=body.at,
        message=body.message,
        model=body.model,
        prompt=body.prompt,
        pin=who.app.pin(body.agent, who.tenant) if body.agent else None,
        id=ThreadId(who.new_id("fork")),
    )
    made = await who.row(forked)
    return ok(await shown_thread(who.store, made), 201, {"Location": f"/v1/threads/{forked}"})


@routes.on("GET", "/threads/{thread}/export", "threads:read", views.Export)
async def export(who: Who, thread: str) -> Response:
    """The thread whole: its conversation and every event, without secrets."""
    row = await who.row(thread)
    return ok(views.export(views.summary(row), await read_log(who.store, row.id)))


@routes.on("GET", "/threads/{thread}/export.md", "threads:read", "text/markdown")
async def export_markdown(who: Who, thread: str) -> Response:
    """The conversation as a Markdown document."""
    row = await who.row(thread)
    title = row.listing.title or f"{row.listing.agent} {row.id[:8]}"
    text = markdown(title, conversation(await read_log(who.store, row.id)))
    return Response(text, media_type="text/markdown")
