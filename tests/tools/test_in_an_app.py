"""The tools inside the runtime: arguments checked, calls judged, outputs bounded."""

from pathlib import Path

import pytest

from retinue.models.script import CallTool, Say
from retinue.schema.agent import AgentDefinition
from retinue.schema.events.steps import CallSettled
from retinue.schema.ids import AgentId
from retinue.testing.harness import log_of, scripted_app

CODER = AgentDefinition(id=AgentId("coder"), name="coder", description="Codes.", prompt="Code.")


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


@pytest.mark.spec("TOOL-01", "TOOL-03", "TOOL-04", "PERM-03", "PERM-07")
async def test_an_agent_works_on_files_inside_its_rules(tmp_path: Path) -> None:
    work = tmp_path / "workspace"
    (work / "src").mkdir(parents=True)
    (work / "src/a.py").write_text("x = 1\n")
    script = [
        call("read", path="src/a.py"),
        call("edit", path="src/a.py", old_string="x = 1", new_string="x = 2"),
        call("grep", pattern="x ="),
        call("bash", command="cat src/a.py && cd src"),
        call("bash", command="pwd"),
        call("write", path="../outside.txt", content="x"),
        call("write", path=".git/config", content="x"),
        call("read", file="src/a.py"),
        call("todo", todos=[{"content": "rest"}]),
        Say(text="done"),
    ]
    async with scripted_app(tmp_path, script, agents=[CODER]) as app:
        completion = await app.run("coder", "go", people="none")
        log = await log_of(app, completion.thread)

    outcomes = [event.outcome for event in log if isinstance(event, CallSettled)]
    assert completion.status == "SUCCESS"
    assert [(o.tool, o.status) for o in outcomes] == [
        *(("read", "ok"), ("edit", "ok"), ("grep", "ok"), ("bash", "ok"), ("bash", "ok")),
        *(("write", "denied"), ("write", "denied"), ("read", "error"), ("todo", "ok")),
    ]
    assert outcomes[2].text == "src/a.py:1:x = 2"
    assert outcomes[4].text == str(work / "src")
    assert outcomes[4].metadata["sandbox"] in ("bubblewrap", "none")
    assert "Nothing was run" in outcomes[7].text
    assert not (tmp_path / "outside.txt").exists()
