import sys
from pathlib import Path

import pytest

from retinue.ports.tool import ToolContext
from retinue.tools.discovery import packaged_tools, project_tools

GOOD = '''
from retinue.tools.function import tool

@tool(effect="read")
def double(n: int) -> int:
    """Twice as much."""
    return {factor} * n
'''


@pytest.mark.spec("TOOL-05")
async def test_tools_of_a_project_are_found_and_a_broken_file_does_not_hide_them(
    workspace: Path, context: ToolContext
) -> None:
    folder = workspace / ".retinue" / "tools"
    folder.mkdir(parents=True)
    (folder / "good.py").write_text(GOOD.format(factor=2))
    (folder / "bad.py").write_text("import nothing_of_that_name")
    (folder / "_private.py").write_text("raise SystemError")

    found = project_tools(workspace)

    assert list(found.tools) == ["double"]
    assert (await found.tools["double"].run({"n": 4}, context)).text == "8"
    assert len(found.problems) == 1
    assert "bad.py: ModuleNotFoundError" in found.problems[0]


async def test_a_changed_file_is_loaded_again(workspace: Path, context: ToolContext) -> None:
    folder = workspace / ".retinue" / "tools"
    folder.mkdir(parents=True)
    (folder / "good.py").write_text(GOOD.format(factor=2))
    first = project_tools(workspace).tools["double"]
    (folder / "good.py").write_text(GOOD.format(factor=10))

    assert (await first.run({"n": 4}, context)).text == "8"
    assert (await project_tools(workspace).tools["double"].run({"n": 4}, context)).text == "40"


@pytest.mark.spec("TOOL-05")
def test_tools_of_installed_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "retinue_sample_tools.py").write_text(GOOD.format(factor=3))
    info = tmp_path / "sample-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[retinue.tools]\nall = retinue_sample_tools\none = retinue_sample_tools:double\nodd = retinue_sample_tools:x\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    found = packaged_tools()

    assert list(found.tools) == ["double"]
    assert [p.split(":")[0] for p in found.problems] == ["entry point odd (retinue_sample_tools"]
    sys.modules.pop("retinue_sample_tools")
