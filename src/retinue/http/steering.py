"""Steering threads: interrupt, resume, cancel, terminate; and their files and variables."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from retinue.app.thread_views import File, Thread, file_of, files_of, keep_file, shown_thread
from retinue.app.threads import resume_tree, taken_in
from retinue.http.routing import Caller, Cursor, Limit, Routes, Who, ok
from retinue.http.starting import Body, Name, Value
from retinue.runtime.variables import VariablesStatus
from retinue.schema.errors import UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.ids import ThreadId
from retinue.web import pages
from retinue.web.pages import Page

routes = Routes("threads")
_ACTS_WITHIN = 2.0
"""Seconds to wait until a thread has taken in what was said to it."""
_CHUNK = 256 * 1024


class SteerBody(Body):
    reason: Annotated[str, Field(max_length=2000, description="Why, for the log.")] = ""


class VariablesBody(Body):
    variables: Annotated[dict[Name, Value], Field(min_length=1, description="Values by name; never shown again.")]


@routes.on("POST", "/threads/{thread}/interrupt", "threads:write", Thread)
async def interrupt(who: Who, thread: str, body: SteerBody | None = None) -> Response:
    """Stop the thread and its children at the next safe point; they can be resumed."""
    by = (body.reason if body else "") or who.signature
    return await _steer(who, thread, lambda id: who.app.engine.interrupt(id, by), stops=True)


@routes.on("POST", "/threads/{thread}/resume", "threads:write", Thread)
async def resume(who: Who, thread: str) -> Response:
    """Let what was interrupted go on."""
    return await _steer(who, thread, lambda id: resume_tree(who.app.engine, id))


@routes.on("POST", "/threads/{thread}/cancel", "threads:write", Thread)
async def cancel(who: Who, thread: str, body: SteerBody | None = None) -> Response:
    """End the run of the thread and of its children; the thread stays."""
    reason = body.reason if body else ""
    return await _steer(who, thread, lambda id: who.app.engine.cancel(id, reason, who.signature), stops=True)


@routes.on("POST", "/threads/{thread}/terminate", "threads:write", Thread)
async def terminate(who: Who, thread: str, body: SteerBody | None = None) -> Response:
    """Shut the thread and its children down for good."""
    reason = body.reason if body else ""
    return await _steer(who, thread, lambda id: who.app.engine.terminate(id, reason, who.signature))


async def _steer(
    who: Caller, thread: str, act: Callable[[ThreadId], Awaitable[None]], *, stops: bool = False
) -> Response:
    id = (await who.row(thread)).id
    await act(id)
    row = await taken_in(who.store, id, _ACTS_WITHIN, (lambda: act(id)) if stops else None)
    return ok(await shown_thread(who.store, row))


@routes.on("GET", "/threads/{thread}/variables/{request}", "threads:read", VariablesStatus, errors=(410,))
async def missing_variables(who: Who, thread: str, request: str) -> Response:
    """Which scoped variables a deferred child needs, and which are missing. Names, never values."""
    id = (await who.row(thread)).id
    return ok(await who.app.engine.variables(id, request))


@routes.on("POST", "/threads/{thread}/variables/{request}", "threads:write", VariablesStatus, errors=(410,))
async def give_variables(who: Who, thread: str, request: str, body: VariablesBody) -> Response:
    """Give values; some are kept, and with the last one the child starts with its original payload."""
    id = (await who.row(thread)).id
    status = await who.app.engine.provide(id, request, body.variables)
    await taken_in(who.store, id, _ACTS_WITHIN)
    return ok(status)


@routes.on("GET", "/threads/{thread}/files", "threads:read", Page[File])
async def list_files(who: Who, thread: str, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The thread's own files: attachments, uploads, and outputs that were too long."""
    id = (await who.row(thread)).id
    return ok(pages.slice_of(files_of(who.app, id), cursor, limit))


@routes.on("POST", "/threads/{thread}/files", "threads:write", FileAttached, status=201)
async def upload(
    who: Who, request: Request, thread: str, name: Annotated[str, Query(min_length=1, max_length=255)]
) -> Response:
    """Keep the body as a file. A message attaches it by the path that is answered."""
    id = (await who.row(thread)).id
    data = await request.body()
    if not data:
        raise UsageError("the file is empty", hint="send its bytes as the body")
    return ok(keep_file(who.app, id, name, data), 201)


@routes.on("GET", "/threads/{thread}/files/{path:path}", "threads:read", "application/octet-stream")
async def download(who: Who, thread: str, path: str) -> Response:
    """A file's bytes. It is never shown in a browser."""
    id = (await who.row(thread)).id
    file = file_of(who.app, id, path)
    name = quote(file.name)
    headers = {
        "Content-Length": str(file.stat().st_size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
    }
    return StreamingResponse(_chunks(file), headers=headers, media_type="application/octet-stream")


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            yield chunk
