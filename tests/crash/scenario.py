"""A run that is killed at every point: which tools, which agents, which script.

Everything is a function of the request, so that a restarted process goes on the
same way; effects and requests are lines of files, which no kill takes back.
"""

import os
from collections.abc import Callable
from pathlib import Path

from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.ports.tool import Tool
from retinue.runtime.completion import COMPLETE
from retinue.schema.agent import AgentDefinition, Budget, Resumable, Subagent
from retinue.schema.completion import Usage
from retinue.tools.function import tool
from support.agents import agent


def tools(effects: Path) -> list[Tool]:
    def note(line: str) -> str:
        with effects.open("a") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        return f"noted {line}"

    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return f"saw {what}"

    @tool(effect="idempotent")
    def put(what: str) -> str:
        """Put."""
        return note(f"put {what}")

    @tool(effect="write")
    def pay(what: str) -> str:
        """Pay."""
        return note(f"pay {what}")

    return [look, put, pay]


CAP = 18_500
"""Tokens for the first and the last request of `broke` and about three of its ten children."""


def used(agent: str) -> Usage:
    """What a request takes."""
    return Usage(input=2500, output=1000) if agent == "poor" else Usage(input=300, output=100)


def _calls(*calls: tuple[str, dict[str, object]]) -> Say:
    return Say(calls=tuple(CallTool(name, arguments) for name, arguments in calls))


def _done(text: str) -> Say:
    return _calls((COMPLETE, {"result": text, "status": "SUCCESS"}))


def single(request: ScriptedRequest) -> Say:
    match request.step:
        case 1:
            return _calls(("look", {"what": "a"}), ("look", {"what": "b"}), ("pay", {"what": "rent"}))
        case 2:
            return _calls(("put", {"what": "x"}), ("pay", {"what": "tax"}))
        case 3:
            return _calls(("pay", {"what": "tea"}))
        case _:
            return Say(text="all paid")


def tree(request: ScriptedRequest) -> Say:
    match request.agent:
        case "lead":
            return _lead(request)
        case "manager":
            if request.step == 1:
                return _calls(("call_agent", {"agent_name": "worker", "input": "dig", "context_scope": "NONE"}))
            return _done("managed")
        case "scout":
            return _calls(("pay", {"what": "scout"})) if request.step == 1 else _done("scouted")
        case "clerk":
            return _done(f"clerk {request.step}")
        case _:
            return _calls(("pay", {"what": "worker"})) if request.step == 1 else _done("dug")


def _lead(request: ScriptedRequest) -> Say:
    match request.step:
        case 1:
            return _calls(
                ("agent_scout", {"message": "look ahead"}),
                ("call_agent", {"agent_name": "manager", "input": "manage", "context_scope": "NONE"}),
            )
        case 2:
            return _calls(("subagent_create", {"agent": "clerk", "name": "ann", "message": "file it"}))
        case 3:
            reference = request.tail.split("- ann: reference ")[1].split(",")[0]
            return _calls(("subagent_message", {"reference": reference, "message": "file more"}))
        case 4:
            return _calls(("pay", {"what": "lead"}))
        case _:
            return Say(text="team done")


def agents() -> list[AgentDefinition]:
    subagents = (Subagent(name="scout", blocking=False), Subagent(name="clerk", resumable=Resumable()))
    plenty = Budget(tokens=100_000_000)
    return [
        agent("single", "look", "put", "pay", budget=plenty),
        agent("broke", allowed_agents=("poor",), can_spawn_subagents=True, budget=Budget(tokens=CAP), max_tokens=1000),
        agent("poor", max_tokens=1000),
        agent("lead", "pay", allowed_agents=("manager",), subagents=subagents, can_spawn_subagents=True, budget=plenty),
        agent("manager", allowed_agents=("worker",), can_spawn_subagents=True),
        agent("worker", "pay"),
        agent("scout", "pay"),
        agent("clerk"),
    ]


def script(requests: Path) -> Callable[[ScriptedRequest], Say]:
    """Every request that reached the model leaves a line in `requests`."""

    def answer(request: ScriptedRequest) -> Say:
        with requests.open("a") as file:
            file.write(f"{request.agent}\n")
        say = _SCRIPTS.get(request.agent, tree)(request)
        return Say(text=say.text, calls=say.calls, usage=used(request.agent))

    return answer


_SCRIPTS: dict[str, Callable[[ScriptedRequest], Say]] = {
    "single": single,
    "broke": lambda r: _calls(*[("call_agent", _POOR)] * 10) if r.step == 1 else Say(text="went as far as it could"),
    "poor": lambda _: _done("begged"),
}
_POOR: dict[str, object] = {"agent_name": "poor", "input": "beg", "context_scope": "NONE"}
