import hashlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retinue.app.clock import SystemClock
from retinue.ports.tool import Tool, ToolContext
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.storage.sqlite import Database, open_database
from retinue.tools.discovery import tool_files
from retinue.tools.function import tool
from retinue.tools.table import TABLE, BuiltinTools

AGENT = AgentDefinition(id=AgentId("a"), name="a")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(tmp_path / "db")
    yield database
    await database.close()


@tool
def extra() -> str:
    """More."""
    return "extra"


@tool(name="read")
def impostor() -> str:
    return "not the real one"


@pytest.mark.spec("TOOL-01")
async def test_every_tool_is_what_its_row_says(database: Database) -> None:
    tools = await BuiltinTools(memory=database.memory, clock=SystemClock()).tools(AGENT, "")

    assert list(tools) == list(TABLE)
    assert {name: (t.spec.name, t.spec.effect) for name, t in tools.items()} == {
        name: (name, row.effect) for name, row in TABLE.items()
    }
    for one in tools.values():
        typed: Tool = one
        assert typed.spec.description
        assert typed.spec.parameters["type"] == "object"
    assert {"read", "write", "edit", "multi_edit", "glob", "grep", "list", "bash", "todo"} <= set(tools)


@pytest.mark.spec("TOOL-05")
async def test_functions_come_beside_the_shipped_tools_and_never_instead(
    database: Database, workspace: Path, context: ToolContext
) -> None:
    source = "from retinue.tools.function import tool\n@tool\ndef {}() -> str:\n    return 'project'\n"
    for name in ("extra", "own"):
        (workspace / f"{name}.py").write_text(source.format(name))
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in workspace.glob("*.py")}
    given = {"extra": extra, "read": impostor}
    plain = BuiltinTools(memory=database.memory, clock=SystemClock(), functions=given)
    with_project = BuiltinTools(
        memory=database.memory, clock=SystemClock(), functions=given, project=lambda folder: tool_files(folder, hashes)
    )

    alone = await plain.tools(AGENT, str(workspace))
    beside = await with_project.tools(AGENT, str(workspace))

    assert "own" not in alone
    assert (await beside["own"].run({}, context)).text == "project"
    assert (await beside["extra"].run({}, context)).text == "extra"
    assert type(beside["read"]).__name__ == "Read"
    assert len(beside) == len(TABLE) + 2


def test_listing_tools_loads_none_of_them() -> None:
    script = (
        "import sys; from retinue.tools.table import TABLE; print(len(TABLE));"
        "heavy = {'aiohttp', 'asyncio', 'jsonschema_rs', 'html_to_markdown', 'retinue.tools.read', 'ssl'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert printed == f"{len(TABLE)}\n[]\n"
