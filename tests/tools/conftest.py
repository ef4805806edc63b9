"""What tests of tools share: a context over a real folder."""

from pathlib import Path

import pytest

from retinue.ports.tool import Target, ToolContext
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId, CallId, ThreadId
from retinue.schema.permission import Decision


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def _allow(target: Target) -> Decision:
    return Decision(verdict="allow", reason=f"{target.op} is allowed here")


@pytest.fixture
def context(tmp_path: Path, workspace: Path) -> ToolContext:
    """A context in which every file is allowed."""
    files = tmp_path / "files"
    files.mkdir()
    return ToolContext(
        thread=ThreadId("11111111-1111-4111-8111-111111111111"),
        call=CallId("22222222-2222-4222-8222-222222222222"),
        agent=AgentDefinition(id=AgentId("coder"), name="coder"),
        workspace=str(workspace),
        files=str(files),
        judge=_allow,
    )
