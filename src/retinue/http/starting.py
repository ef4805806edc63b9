"""What starting a thread takes over HTTP, and waiting for what comes of it; runs and threads share it."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from retinue.app.thread_views import workspace_for
from retinue.http.routing import Caller, ok
from retinue.schema.agent import Budget
from retinue.schema.completion import Completion
from retinue.schema.errors import Conflict
from retinue.schema.ids import Seq, ThreadId
from retinue.schema.thread import ThreadStatus

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]
Value = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=131_072)]
"""Of a variable, as programs can take it."""
Said = Annotated[str, Field(min_length=1, max_length=2_000_000)]
LONGEST_WAIT = 600.0


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class BudgetBody(Body):
    cost: Annotated[int | None, Field(ge=0, le=2**53, description="Nano-dollars.")] = None
    tokens: Annotated[int | None, Field(ge=0, le=2**53)] = None


class StartBody(Body):
    agent: Annotated[str | None, Field(min_length=1, max_length=512, description="Default: the default agent.")] = None
    message: Said
    inputs: Annotated[dict[str, Any], Field(description="The agent's declared inputs.")] = {}
    model: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    people: Annotated[Literal["wait", "none"], Field(description="Whether people can be asked.")] = "wait"
    budget: BudgetBody | None = None
    max_depth: Annotated[int | None, Field(ge=0, le=100)] = None
    workspace: Annotated[str | None, Field(max_length=4096, description="One of `serve.workspaces`.")] = None
    env: Annotated[dict[Name, Value], Field(description="Variables of the thread; never shown again.")] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands; `completion` when it is over."""

    thread: ThreadId
    status: ThreadStatus
    completion: Completion | None = None


async def start(who: Caller, body: StartBody) -> ThreadId:
    """Start a thread; the same request again finds the one it started before."""
    app, thread = who.app, ThreadId(who.new_id("thread"))
    pin = app.pin(body.agent or app.settings.default_agent, who.tenant)
    workspace = workspace_for(app, who.tenant, thread, body.workspace)
    budget = Budget(cost=body.budget.cost, tokens=body.budget.tokens) if body.budget else None
    try:
        return await app.engine.start(
            pin,
            body.message,
            inputs=body.inputs,
            id=thread,
            tenant=who.tenant,
            workspace=workspace,
            people=body.people,
            model=body.model,
            budget=budget,
            max_depth=body.max_depth,
            env=body.env,
            message_id=who.new_id("message"),
        )
    except Conflict:
        if who.once is None:
            raise
        return (await who.row(thread)).id
    except BaseException:
        if body.workspace is None:
            Path(workspace).rmdir()
        raise


async def outcome(who: Caller, thread: ThreadId, *, after: Seq, seconds: float) -> Response:
    """The next completion: 200 when it came in time, 202 when it is still to come."""
    completion = await _next(who, thread, after, seconds) if seconds else None
    row = await who.row(thread)
    run = Run(thread=thread, status=row.listing.status, completion=completion)
    return ok(run, 200 if completion else 202, {"Location": f"/v1/threads/{thread}"})


async def _next(who: Caller, thread: ThreadId, after: Seq, seconds: float) -> Completion | None:
    waiting = asyncio.create_task(who.app.engine.wait(thread, after=after))
    closing = asyncio.create_task(who.served.closing.wait())
    try:
        await asyncio.wait((waiting, closing), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
        closing.cancel()
        await asyncio.gather(waiting, closing, return_exceptions=True)
