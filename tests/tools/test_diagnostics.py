"""diagnostics with real checkers where they are installed, and with small programs that speak their form."""

import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from retinue.ports.tool import ToolContext
from retinue.sandbox.bubblewrap import available
from retinue.schema.permission import Rule
from retinue.tools.diagnostics import CHECKERS, Diagnostics
from retinue.tools.settings import ToolSettings

from .conftest import Judged


async def diagnose(context: ToolContext, path: str, settings: ToolSettings | None = None) -> str:
    return (await Diagnostics(settings or ToolSettings()).run({"path": path}, context)).text


def stand_in(folder: Path, name: str, output: str) -> None:
    """A checker of the project that prints what the real one would."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit 1\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def boxed(context: ToolContext) -> ToolContext:
    if not available().program:
        assert os.environ.get("CI") != "true", f"bubblewrap must work where CI=true: {available().reason}"
        pytest.skip(available().reason)
    return context


@pytest.mark.spec("TOOL-08")
async def test_ruff_tells_what_it_finds_in_the_file_and_nothing_of_others(
    workspace: Path, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    assert ruff.exists()
    programs = workspace.parent / "programs"
    programs.mkdir()
    (programs / "ruff").symlink_to(ruff)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (workspace / "a.py").write_text("import os\n\nprint(undefined)\n")
    (workspace / "b.py").write_text("import sys\n")
    (workspace / "good.py").write_text("x = 1\n")
    outside = msgspec.structs.replace(context, sandbox="off")

    assert (await diagnose(outside, "a.py")).splitlines() == [
        *("a.py:1:8 F401 [*] `os` imported but unused [ruff]", "a.py:3:7 F821 Undefined name `undefined` [ruff]"),
    ]
    assert await diagnose(outside, "good.py") == "No problems in good.py (ruff)."


@pytest.mark.spec("TOOL-08")
@pytest.mark.parametrize(
    ("file", "beside", "program", "output", "told"),
    [
        (
            "a.py",
            "x",
            "pyright",
            "  {file}:2:5 - error: Bad type (reportX)",
            "a.py:2:5 error: Bad type (reportX) [pyright]",
        ),
        (
            "a.ts",
            "tsconfig.json",
            "tsc",
            "a.ts(3,7): error TS2322: No.\nb.ts(1,1): error TS1: x",
            "a.ts:3:7 error TS2322: No. [tsc]",
        ),
        ("a.go", "go.mod", "go", "# pkg\nvet: ./a.go:5:2: undefined: x", "a.go:5:2 undefined: x [go]"),
        (
            "a.rs",
            "Cargo.toml",
            "cargo",
            "a.rs:2:5: error[E0425]: not found",
            "a.rs:2:5 error[E0425]: not found [cargo]",
        ),
        (
            "a.js",
            "eslint.config.js",
            "eslint",
            '[{{"filePath": "{file}", "messages": '
            '[{{"ruleId": "semi", "severity": 2, "message": "m", "line": 1, "column": 2}}]}}]',
            "a.js:1:2 error: m (semi) [eslint]",
        ),
    ],
)
async def test_the_projects_own_checkers_are_understood(
    file: str, beside: str, program: str, output: str, told: str, workspace: Path, boxed: ToolContext
) -> None:
    (workspace / file).write_text("x\n")
    (workspace / beside).write_text("")
    stand_in(workspace / ".venv/bin", program, output.format(file=workspace / file))

    assert told in (await diagnose(boxed, file)).splitlines()


@pytest.mark.spec("TOOL-08")
async def test_configured_commands_come_first(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.py").write_text("import os\n")
    settings = ToolSettings(checkers={"*.py": ("sh", "-c", 'echo "$0:9: house rule"', "{file}")})

    assert await diagnose(context, "a.py", settings) == "a.py:9 house rule [sh]"


async def test_code_of_the_project_is_not_run_outside_the_sandbox(workspace: Path, context: ToolContext) -> None:
    """An agent that may not use bash could write a checker and call this tool instead."""
    (workspace / "a.js").write_text("x\n")
    (workspace / "eslint.config.js").write_text("")
    stand_in(workspace / "node_modules/.bin", "eslint", "ran")
    (workspace / "node_modules/.bin/eslint").write_text("#!/bin/sh\ntouch ran\n")
    outside = msgspec.structs.replace(context, sandbox="off")

    await diagnose(outside, "a.js")

    assert not (workspace / "ran").exists()
    assert {c.name for c in CHECKERS if c.runs_project} == {"eslint", "cargo"}


async def test_denied_missing_and_unknown_files_are_told(workspace: Path, judged: Judged) -> None:
    (workspace / "a.py").write_text("")
    (workspace / "a.xyz").write_text("")
    denied = judged(Rule(tool="read", pattern="a.py", verdict="deny"))

    assert (await Diagnostics(ToolSettings()).run({"path": "a.py"}, denied)).status == "denied"
    assert await diagnose(judged(), "a.xyz") == "No checker for a.xyz is configured or installed here."
    assert "is not a file" in await diagnose(judged(), "gone.py")


async def test_a_checker_that_fails_says_so(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.py").write_text("")
    settings = ToolSettings(checkers={"*.py": ("sh", "-c", "echo broken >&2; exit 7")})

    assert await diagnose(context, "a.py", settings) == "sh failed with status 7: broken"
    assert shutil.which("sh")
