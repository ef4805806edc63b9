"""Remote agents called as children: our client against our own server."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import CancelTaskRequest, ListTasksRequest, TaskState

from retinue.app.retinue import Retinue
from retinue.models.script import CallTool, Say
from retinue.runtime.follow import Happened
from retinue.runtime.state import State
from retinue.schema.agent import AgentDefinition
from retinue.schema.completion import Completion
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.runs import RunCompleted
from retinue.schema.events.steps import ModelAsked
from retinue.schema.events.threads import ThreadTerminated
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import DEFAULT_TENANT, ThreadId
from support.a2a import a2a_server, agent

pytestmark = pytest.mark.spec("REG-10")
CALL = CallTool("call_agent", {"agent_name": "partner/legal", "input": "Check clause 4", "context_scope": "NONE"})
TOKEN = {"type": "http", "scheme": "Bearer", "token": "alice"}


def partner(port: int, **fields: object) -> AgentDefinition:
    url = f"http://127.0.0.1:{port}/a2a/legal"
    return agent("partner/legal", kind="remote", agent_card_url=url, auth=TOKEN, prompt="", exposed=False, **fields)


def boss() -> AgentDefinition:
    return agent("boss", can_spawn_subagents=True, allowed_agents=("partner/legal",))


def happens(app: Retinue, kind: type[AnyEvent]) -> asyncio.Event:
    """Set when such an event is on disk."""
    came = asyncio.Event()

    def tap(_: State, events: Sequence[AnyEvent]) -> None:
        if any(isinstance(event, kind) for event in events):
            came.set()

    app.engine.runtime.live.taps.append(tap)
    return came


async def outcome(app: Retinue, thread: ThreadId) -> Completion:
    """How the child of a thread ended."""
    async with asyncio.timeout(30):
        async for item in app.engine.follow(thread, tree=True, deltas=False):
            if isinstance(item, Happened) and item.thread != thread and isinstance(item.event, RunCompleted):
                return item.event.completion
    raise AssertionError


@pytest.mark.parametrize(
    ("said", "status", "result"),
    [
        (CallTool("complete_agent_execution", {"result": "It holds.", "status": "SUCCESS"}), "SUCCESS", "It holds."),
        (CallTool("complete_agent_execution", {"result": "No.", "status": "FAILED"}), "FAILED", "No."),
        (
            CallTool(
                "complete_agent_execution",
                {"result": "Not ours.", "status": "FAILED", "metadata": {"a2a": {"state": "rejected"}}},
            ),
            "FAILED",
            "Not ours.",
        ),
        (
            CallTool(
                "complete_agent_execution",
                {"result": "Just words.", "status": "SUCCESS", "metadata": {"a2a": {"reply": "message"}}},
            ),
            "SUCCESS",
            "Just words.",
        ),
    ],
)
async def test_a_remote_agent_is_called_like_any_other(
    tmp_path: Path, said: CallTool, status: str, result: str
) -> None:
    async with a2a_server(tmp_path / "far", [said], agent("legal", completion="explicit")) as far:
        near_agents = (boss(), partner(far.port))
        allow = (f"127.0.0.1:{far.port}",)
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            thread = await near.app.start("boss", "go")
            child = await outcome(near.app, thread)
            whole = await near.app.engine.wait(thread)
    assert (child.status, child.result, child.confidence) == (status, result, None)
    assert whole.result == "Heard."


async def test_input_required_is_a_question_and_its_answer_goes_to_the_same_task(tmp_path: Path) -> None:
    script = [CallTool("request_user_input", {"prompt": "Which law?"}), "By {{last_outcome}}: fine."]
    async with a2a_server(tmp_path / "far", script, agent("legal")) as far:
        near_agents, allow = (boss(), partner(far.port)), (f"127.0.0.1:{far.port}",)
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            thread = await near.app.start("boss", "go")
            async with asyncio.timeout(20):
                async for item in near.app.engine.follow(thread, tree=True):
                    if isinstance(item, Happened) and isinstance(item.event, QuestionAsked):
                        assert item.event.prompt == "Which law?"
                        await near.app.engine.answer(item.event.id, "Norwegian law")
                        break
            child = await outcome(near.app, thread)
            tasks = await (await far.client("legal")).list_tasks(ListTasksRequest())
    assert child.result == "By Norwegian law: fine."
    assert tasks.total_size == 1


async def test_auth_required_is_a_question_and_its_answer_takes_what_came_of_the_task_meanwhile(tmp_path: Path) -> None:
    script = [CallTool("bash", {"command": "curl https://example.com"}), "Not allowed, then."]
    async with a2a_server(tmp_path / "far", script, agent("legal")) as far:
        near_agents, allow = (boss(), partner(far.port)), (f"127.0.0.1:{far.port}",)
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            thread = await near.app.start("boss", "go")
            async with asyncio.timeout(20):
                async for item in near.app.engine.follow(thread, tree=True):
                    if isinstance(item, Happened) and isinstance(item.event, QuestionAsked):
                        assert "the operator of this agent gives" in item.event.prompt
                        ended = happens(far.app, RunCompleted)
                        ((_, asked),) = await far.app.engine.runtime.store.questions(DEFAULT_TENANT)
                        await far.app.engine.answer(asked.id, "no", scope="deny")
                        await ended.wait()
                        await near.app.engine.answer(item.event.id, "go on")
                        break
            child = await outcome(near.app, thread)
    assert child.result == "Not allowed, then."


async def test_a_card_may_stand_in_the_definition_and_its_interface_gets_the_credentials(tmp_path: Path) -> None:
    far_agent = agent("legal", description="Reads contracts.", display_name="Lawyer")
    async with a2a_server(tmp_path / "far", ["It holds."], far_agent) as far:
        card = (await (await far.http()).get("/a2a/legal/.well-known/agent-card.json")).text
        allow = (f"127.0.0.1:{far.port}",)
        for name, inline in (("good", card), ("bad", "{}"), ("odd", '{"supportedInterfaces": 7}')):
            remote = agent("partner/legal", kind="remote", agent_card_json=inline, auth=TOKEN, prompt="", exposed=False)
            scripts = {"boss": [CALL, "Heard."]}
            async with a2a_server(tmp_path / name, scripts, boss(), remote, allow=allow) as near:
                described = near.app.pin("partner/legal").definition.description
                child = await outcome(near.app, await near.app.start("boss", "go"))
            if name == "good":
                assert child.result == "It holds." and "- Lawyer: Reads contracts." in described
            else:
                assert child.status == "FAILED" and "partner/legal" in (child.error or ""), child


async def test_a_task_that_the_other_side_cancels_has_failed(tmp_path: Path) -> None:
    async with a2a_server(tmp_path / "far", [Say(text="late", latency=60)], agent("legal")) as far:
        near_agents, allow = (boss(), partner(far.port)), (f"127.0.0.1:{far.port}",)
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            asked = happens(far.app, ModelAsked)
            thread = await near.app.start("boss", "go")
            async with asyncio.timeout(20):
                await asked.wait()
                client = await far.client("legal")
                (task,) = (await client.list_tasks(ListTasksRequest())).tasks
                await client.cancel_task(CancelTaskRequest(id=task.id))
            child = await outcome(near.app, thread)
    assert (child.status, child.confidence) == ("FAILED", None)


async def test_cancel_travels(tmp_path: Path) -> None:
    async with a2a_server(tmp_path / "far", [Say(text="late", latency=60)], agent("legal")) as far:
        near_agents, allow = (boss(), partner(far.port)), (f"127.0.0.1:{far.port}",)
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            asked, ended = happens(far.app, ModelAsked), happens(far.app, ThreadTerminated)
            thread = await near.app.start("boss", "go")
            async with asyncio.timeout(20):
                await asked.wait()
                await near.app.engine.cancel(thread)
                await ended.wait()
        found = await (await far.client("legal")).list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_CANCELED))
    assert len(found.tasks) == 1


async def test_a_restart_of_the_caller_picks_the_remote_task_up_again(tmp_path: Path) -> None:
    script = {"legal": [Say(text="It holds.", latency=3)]}
    async with a2a_server(tmp_path / "far", script, agent("legal")) as far:
        near_agents, allow = (boss(), partner(far.port)), (f"127.0.0.1:{far.port}",)
        client = await far.client("legal")
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            asked = happens(far.app, ModelAsked)
            thread = await near.app.start("boss", "go")
            async with asyncio.timeout(20):
                await asked.wait()
        async with a2a_server(tmp_path / "near", {"boss": [CALL, "Heard."]}, *near_agents, allow=allow) as near:
            async with asyncio.timeout(30):
                whole = await near.app.engine.wait(thread)
        tasks = await client.list_tasks(ListTasksRequest())
    assert whole.result == "Heard."
    assert tasks.total_size == 1


async def test_callers_are_told_the_cards_skills_once_it_was_read(tmp_path: Path) -> None:
    far_agent = agent("legal", description="Reads contracts.", display_name="Lawyer")
    async with a2a_server(tmp_path / "far", ["ok"], far_agent) as far:
        allow = (f"127.0.0.1:{far.port}",)
        async with a2a_server(
            tmp_path / "near", {"boss": [CALL, "Heard."]}, boss(), partner(far.port), allow=allow
        ) as n:
            before = n.app.pin("partner/legal").definition.description
            await n.app.engine.wait(await n.app.start("boss", "go"))
            after = n.app.pin("partner/legal").definition.description
    assert before == "The agent partner/legal."
    assert after == "The agent partner/legal.\nReads contracts.\n- Lawyer: Reads contracts."


async def test_a_host_that_the_operator_does_not_allow_is_not_reached(tmp_path: Path) -> None:
    async with a2a_server(tmp_path, {"boss": [CALL, "Heard."]}, boss(), partner(9)) as near:
        child = await outcome(near.app, await near.app.start("boss", "go"))
    assert child.status == "FAILED" and "not a public address" in (child.error or "")
