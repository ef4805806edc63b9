import threading
from pathlib import Path

import pytest

from retinue import RetinueSync
from retinue.app.questions import Reply
from retinue.app.settings import Settings
from retinue.models.script import CallTool, Say
from retinue.models.scripted import ScriptedModels
from retinue.runtime.follow import Happened
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import AgentNotFound
from retinue.schema.events.runs import RunCompleted
from support.agents import add, agent


def app_on(folder: Path, *answers: Say | str, agents: list[AgentDefinition]) -> RetinueSync:
    return RetinueSync(
        agents=agents,
        tools=[add],
        models=ScriptedModels(list(answers)),
        settings=Settings(home=folder, root=folder),
        data_dir=folder,
        workspace=folder,
        environ={},
    )


@pytest.mark.spec("API-01")
def test_a_script_without_an_event_loop_runs_agents(tmp_path: Path) -> None:
    script = (Say(calls=(CallTool("add", {"a": 2, "b": 3}),)), "It is {{last_outcome}}.")

    with app_on(tmp_path, *script, agents=[agent("calc", "add")]) as app:
        assert app.run("calc", "2 + 3?").result == "It is 5."
        items = list(app.stream("calc", "again?"))
        with pytest.raises(AgentNotFound):
            app.run("nobody", "hello")

    assert isinstance(items[-1], Happened)
    assert isinstance(items[-1].event, RunCompleted)
    assert not any(t.name == "retinue" for t in threading.enumerate())


@pytest.mark.spec("API-01", "ASK-01")
def test_threads_go_on_between_calls_and_questions_are_answered(tmp_path: Path) -> None:
    ask = Say(calls=(CallTool("request_user_input", {"prompt": "Who?"}),))

    with app_on(tmp_path, ask, "Hello {{last_outcome}}.", "Again.", agents=[agent("host")]) as app:
        thread = app.start("host", "greet")
        while not (found := app.questions()):
            pass
        app.answer(found[0].id, Reply(answer="Ada"))
        assert app.wait(thread).result == "Hello Ada."

        app.send(thread, "once more")
        assert app.use(lambda engine: engine.wait(thread, after=app.state(thread).head)).result == "Again."


def test_an_app_that_can_not_be_opened_leaves_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "retinue.db").write_text("this is no database, and long enough to be refused as one")
    with pytest.raises(Exception, match="database"), app_on(tmp_path, agents=[]):
        pass
    assert not any(t.name == "retinue" for t in threading.enumerate())


def test_a_reader_that_stops_early_closes_the_stream(tmp_path: Path) -> None:
    with app_on(tmp_path, "Hi.", agents=[agent("host")]) as app:
        items = app.stream("host", "greet")
        assert next(items)
        items.close()
