"""Every built-in agent runs, with the tools and the completion it is meant to have; a thread keeps its definition."""

import asyncio

import msgspec
import pytest

from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.runtime.completion import COMPLETE
from retinue.schema.ids import ThreadId
from support.agents import agent
from support.opening import OpenApp

PLAN: dict[str, object] = {"goal": "g", "steps": [{"id": "1", "what": "w", "files": [], "depends_on": []}], "risks": []}
REPORT: dict[str, object] = {
    "summary": "s",
    "exploration_trace": ["read a"],
    "locations": [{"file": "a.py", "reasoning": "r", "symbols": ["f"]}],
}
HELP: dict[str, object] = {"answer": "a", "commands": [{"usage": "retinue run", "options": ["--json"]}]}


def structured(request: ScriptedRequest) -> Say:
    """Completes with whatever the completion tool's schema wants."""
    if COMPLETE not in request.tools:
        return Say(text="plain words")
    value: object = {"codebase-investigator": REPORT, "cli-help": HELP}.get(request.agent, PLAN)
    spec = next(t for t in request.head.tools if t.name == COMPLETE)
    wanted = next(name for name in msgspec.convert(spec.parameters["properties"], dict[str, object]))
    return Say(calls=(CallTool(COMPLETE, {wanted: value, "status": "SUCCESS"}),))


@pytest.mark.spec("REG-12", "RUN-07")
@pytest.mark.parametrize(
    ("name", "tools", "result"),
    [
        ("coder", {"read", "edit", "bash", "task"}, "plain words"),
        ("planner", {"read", "glob", "grep", "list", "todo", "task", "question"}, PLAN),
        ("reviewer", {"read", "glob", "grep", "list", "diagnostics"}, "plain words"),
        ("explore", {"read", "glob", "grep", "list"}, "plain words"),
        ("general", {"read", "edit", "bash"}, "plain words"),
        ("researcher", {"websearch", "webfetch", "read"}, "plain words"),
        ("planner-sub", {"read", "glob", "grep", "list", "todo"}, PLAN),
        ("codebase-investigator", {"read", "grep"}, REPORT),
        ("cli-help", {"bash"}, HELP),
    ],
)
async def test_a_built_in_agent_runs_with_its_tools_and_its_result(
    open_app: OpenApp, name: str, tools: set[str], result: object
) -> None:
    offered: set[str] = set()

    def script(request: ScriptedRequest) -> Say:
        offered.update(request.tools)
        return structured(request)

    async with open_app({"*": script}) as app:
        async with asyncio.timeout(10):
            completion = await app.run(name, "do it", people="none")
    assert tools <= offered
    assert (completion.status, completion.result) == ("SUCCESS", result)
    if name in ("planner", "planner-sub", "reviewer", "explore"):
        assert not offered & {"write", "edit", "multi_edit", "bash"}
    if name == "general":
        assert not offered & {"task", "call_agent"}


@pytest.mark.spec("REG-07")
async def test_a_thread_keeps_the_definition_it_started_with(open_app: OpenApp) -> None:
    systems: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        systems.append(request.system)
        return Say(text="ok")

    async with open_app(script, agents=[agent(prompt="Version one.", hash="h1")]) as app:
        first = await app.run("calc", "go")
    async with open_app(script, agents=[agent(prompt="Version two.", hash="h2")]) as app:
        thread = ThreadId(first.thread)
        head = (await app.engine.state(thread)).head
        await app.engine.send(thread, "again")
        async with asyncio.timeout(5):
            again = await app.engine.wait(thread, after=head)
        other = await app.run("calc", "go")
    assert systems == ["Version one.", "Version one.", "Version two."]
    assert [c.definition_hash for c in (first, again, other)] == ["h1", "h1", "h2"]
