from pathlib import Path

import pytest

from retinue.ports.tool import ToolContext
from retinue.tools.todo import Todo


@pytest.mark.spec("TOOL-01")
async def test_the_list_is_kept_with_the_thread(context: ToolContext) -> None:
    todos = [
        {"content": "look", "status": "completed"},
        {"content": "fix", "status": "in_progress"},
        {"content": "test"},
    ]

    written = await Todo().run({"todos": todos}, context)
    read = await Todo().run({}, context)

    assert written.text == read.text == "[x] look\n[>] fix\n[ ] test"
    assert (await Todo().run({"todos": []}, context)).text == "[nothing to do]"


async def test_a_new_thread_has_nothing_to_do_and_a_damaged_list_is_told(context: ToolContext) -> None:
    assert (await Todo().run({}, context)).text == "[nothing to do]"
    (Path(context.files) / "todo.json").write_text("{")
    assert "Write it anew" in (await Todo().run({}, context)).text
    assert (await Todo().run({"todos": [{"content": "a"}]}, context)).text == "[ ] a"
