"""What tests of trees of threads share: scripts in few words, and looking at logs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from retinue.app.retinue import Retinue
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.runtime.completion import COMPLETE
from retinue.runtime.follow import Happened
from retinue.schema.agent import AgentDefinition, Binding, Side, Subagent
from retinue.schema.events.children import ChildStarted
from retinue.schema.events.runs import MessageReceived
from retinue.schema.events.steps import CallSettled
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import ThreadId
from retinue.schema.message import Outcome, text_of
from retinue.testing.harness import log_of
from support.agents import agent


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


def calls(*made: tuple[str, Mapping[str, object]]) -> Say:
    return Say(calls=tuple(CallTool(tool, arguments) for tool, arguments in made))


def ask(name: str, text: str = "x") -> Say:
    return call("call_agent", agent_name=name, input=text, context_scope="NONE")


def complete(result: str = "done", status: str = "SUCCESS", **more: object) -> Say:
    return call(COMPLETE, result=result, status=status, **more)


def lead(*agents: str, tools: Sequence[str] = (), **keys: object) -> AgentDefinition:
    return agent("lead", *tools, **{"allowed_agents": agents, "can_spawn_subagents": True, **keys})


def boss(*subagents: Subagent, **keys: object) -> AgentDefinition:
    return agent("lead", **{"subagents": subagents, "can_spawn_subagents": True, **keys})


def pair(id: str = "pair", **keys: object) -> AgentDefinition:
    """Two sides: A fails with `fail`, B approves with `approve` and publishes with `report`."""
    return agent(
        id,
        type="dual_ai",
        max_session_turns=6,
        side_a=Side(session_fail=Binding(name="fail", message_property="reason")),
        side_b=Side(
            stop_on_response=False,
            session_stop=Binding(name="approve", message_property="summary"),
            session_status=Binding(name="report", message_property="status"),
        ),
        **keys,
    )


def two(worker: Say, reviewer: Say) -> Callable[[ScriptedRequest], Say]:
    return lambda request: reviewer if "approve" in request.tools else worker


def outcomes(log: Sequence[AnyEvent]) -> list[Outcome]:
    return [e.outcome for e in log if isinstance(e, CallSettled)]


def texts(log: Sequence[AnyEvent]) -> list[str]:
    return [outcome.text for outcome in outcomes(log)]


def silent(log: Sequence[AnyEvent]) -> list[str]:
    """Messages that were queued for the model and not said by a person."""
    return [text_of(e.parts) for e in log if isinstance(e, MessageReceived) and e.silent]


async def children(app: Retinue, thread: str) -> list[ChildStarted]:
    return [e for e in await log_of(app, thread) if isinstance(e, ChildStarted)]


async def until(app: Retinue, thread: str, *kinds: type[AnyEvent], times: int = 1) -> AnyEvent:
    """Wait for the so-many-th event of these kinds in a thread's log."""
    async with asyncio.timeout(10):
        async for item in app.engine.follow(ThreadId(thread)):
            if isinstance(item, Happened) and isinstance(item.event, kinds):
                times -= 1
                if not times:
                    return item.event
    raise AssertionError


async def finished(app: Retinue, thread: str, runs: int = 1) -> None:
    """Wait until a thread has completed so many runs."""
    from retinue.schema.events.runs import RunCompleted

    await until(app, thread, RunCompleted, times=runs)
