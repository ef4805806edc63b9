"""Runs: start an agent, and wait for its completion or follow it, in one request."""

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from retinue.http.routing import Routes, Who
from retinue.http.starting import LONGEST_WAIT, Run, StartBody, outcome, start
from retinue.web.sse import EventStream

routes = Routes("runs")


class RunBody(StartBody):
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the completion.")] = 60.0
    stream: Annotated[bool, Field(description="Answer with events, its children's too, until the run is over.")] = False


@routes.on("POST", "/runs", "threads:write", Run, also={202: Run}, errors=(404,))
async def run(who: Who, body: RunBody) -> Response:
    """Start a thread and wait for its completion; 202 when that takes longer, or needs a person."""
    thread = await start(who, body)
    if body.stream:
        return EventStream(who.served, who.principal, thread, after={}, tree=True, until_done=True)
    return await outcome(who, thread, after=0, seconds=body.wait)
