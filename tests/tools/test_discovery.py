import hashlib
import py_compile
import sys
from pathlib import Path

import pytest

from retinue.ports.tool import ToolContext
from retinue.tools.discovery import Outline, ToolFile, outlines, packaged_tools, project_tools, tool_files

GOOD = '''
from retinue.tools.function import tool

@tool(effect="read")
def double(n: int) -> int:
    """Twice as much."""
    return {factor} * n
'''


def _trusted(folder: Path) -> list[ToolFile]:
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.py")}
    return list(tool_files(folder, hashes))


@pytest.mark.spec("TOOL-05")
async def test_tools_of_a_project_are_found_and_a_broken_file_does_not_hide_them(
    workspace: Path, context: ToolContext
) -> None:
    folder = workspace / ".retinue" / "tools"
    folder.mkdir(parents=True)
    (folder / "good.py").write_text(GOOD.format(factor=2))
    (folder / "bad.py").write_text("import nothing_of_that_name")
    (folder / "_private.py").write_text("raise SystemError")

    found = project_tools(_trusted(folder))

    assert list(found.tools) == ["double"]
    assert (await found.tools["double"].run({"n": 4}, context)).text == "8"
    assert len(found.problems) == 1
    assert "bad.py: ModuleNotFoundError" in found.problems[0]


async def test_a_changed_file_is_loaded_again(workspace: Path, context: ToolContext) -> None:
    folder = workspace / ".retinue" / "tools"
    folder.mkdir(parents=True)
    (folder / "good.py").write_text(GOOD.format(factor=2))
    first = project_tools(_trusted(folder)).tools["double"]
    (folder / "good.py").write_text(GOOD.format(factor=10))

    assert (await first.run({"n": 4}, context)).text == "8"
    assert (await project_tools(_trusted(folder)).tools["double"].run({"n": 4}, context)).text == "40"


@pytest.mark.spec("TOOL-05")
def test_a_file_that_nobody_trusted_or_that_changed_since_is_told_and_never_run(workspace: Path) -> None:
    ran = workspace / "ran"
    (workspace / "one.py").write_text(
        f"open({str(ran)!r}, 'w')\n"
        "import retinue.tools.function as f\n"
        "@f.tool(name='second', effect='idempotent')\nasync def first(n: int) -> int:\n    'Does.'\n"
        "@f.tool\ndef third() -> None: ...\n@print\ndef none() -> None: ...\n"
    )
    (workspace / "two.py").write_text("this is no Python (")

    files = list(tool_files(workspace, {"one.py": "the hash it had", "two.py": ""}))

    assert [file.trusted for file in files] == [False, False]
    assert [outlines(file) for file in files] == [
        [
            Outline(name="second", effect="idempotent", description="Does."),
            Outline(name="third", effect="write", description=""),
        ],
        [],
    ]
    assert project_tools(files).tools == {}
    assert not ran.exists()


@pytest.mark.spec("TOOL-05")
async def test_what_was_judged_is_what_runs_whatever_lies_on_the_disk(workspace: Path, context: ToolContext) -> None:
    path = workspace / "good.py"
    path.write_text(GOOD.format(factor=666))
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text(GOOD.format(factor=2))
    judged = _trusted(workspace)
    path.write_text(GOOD.format(factor=667))

    assert (await project_tools(judged).tools["double"].run({"n": 4}, context)).text == "8"


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
