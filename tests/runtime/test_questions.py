"""Answers to questions."""

import asyncio
from pathlib import Path

import pytest

from retinue.app.questions import Reply, answer
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.runtime.follow import Happened
from retinue.schema.events.children import FileAttached
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.testing.harness import log_of
from support.agents import agent
from support.opening import OpenApp


@pytest.mark.spec("ASK-01", "MEM-02")
async def test_a_file_that_answers_a_question_is_an_attachment_of_the_thread(open_app: OpenApp, tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> Say:
        if request.step == 1:
            return Say(calls=(CallTool("request_user_input", {"prompt": "Which file?", "inputType": "file"}),))
        return Say(text=f"read {request.outcomes[0].text}")

    source = tmp_path / "plan.txt"
    source.write_text("step one")
    async with open_app(script, agents=[agent()]) as app, asyncio.timeout(10):
        thread = await app.start("calc", "go")
        async for item in app.engine.follow(thread, deltas=False):
            if isinstance(item, Happened) and isinstance(item.event, QuestionAsked):
                await answer(app, item.event.id, Reply(file=source))
                break
        completion = await app.engine.wait(thread)
        state, log = await app.engine.state(thread), await log_of(app, thread)
    [kept] = [e for e in log if isinstance(e, FileAttached)]
    [settled] = [e for e in log if isinstance(e, QuestionSettled)]
    assert (settled.answer, Path(kept.path).read_text()) == (kept.path, "step one")
    assert list(state.files) == [kept.path]
    assert completion.result == f"read {kept.path}"
