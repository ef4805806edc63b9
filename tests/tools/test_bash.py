import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from retinue.ports.tool import Result, ToolContext
from retinue.sandbox.bubblewrap import available
from retinue.sandbox.limits import Limits
from retinue.schema.agent import ToolOverride
from retinue.tools.bash import Bash
from retinue.tools.read import Read
from retinue.tools.settings import ToolSettings


@pytest.fixture(params=["off", "auto"])
def shell(request: pytest.FixtureRequest, context: ToolContext) -> ToolContext:
    if request.param == "auto" and not available().program:
        assert os.environ.get("CI") != "true", f"bubblewrap must work where CI=true: {available().reason}"
        pytest.skip(available().reason)
    return msgspec.structs.replace(context, sandbox=request.param)


async def bash(context: ToolContext, command: str, **more: object) -> Result:
    return await Bash(ToolSettings()).run({"command": command, **more}, context)


@pytest.mark.spec("TOOL-01", "PERM-07")
async def test_a_command_runs_in_the_workspace_and_tells_its_isolation(shell: ToolContext, workspace: Path) -> None:
    result = await bash(shell, "echo out; echo err >&2; pwd")

    assert result == Result(
        text=f"out\nerr\n{workspace}",
        metadata={
            "exit_status": 0,
            "sandbox": "none" if shell.sandbox == "off" else "bubblewrap",
            "network": shell.sandbox == "off",
            "folder": str(workspace),
        },
        taints=("private", "untrusted") if shell.sandbox == "off" else ("private",),
    )


@pytest.mark.spec("PERM-08")
async def test_what_a_failing_command_has_shown_is_private_all_the_same(shell: ToolContext) -> None:
    assert "private" in (await bash(shell, "cat /etc/hostname; false")).taints


@pytest.mark.spec("TOOL-01")
async def test_the_working_directory_is_kept_and_variables_are_not(shell: ToolContext, workspace: Path) -> None:
    await bash(shell, "mkdir -p 'sub dir' && cd 'sub dir' && export X=1")

    assert (await bash(shell, 'pwd; echo "[$X]"')).text == f"{workspace}/sub dir\n[]"
    assert (await Bash(ToolSettings()).inspect({"command": "pwd"}, shell)).folder == f"{workspace}/sub dir"
    await bash(shell, "cd .. && exit 3")
    assert (await bash(shell, "pwd")).text == str(workspace)
    await bash(shell, "cd /")
    assert (await bash(shell, "pwd")).text == str(workspace)
    await bash(shell, "mkdir gone && cd gone && rmdir ../gone")
    assert (await bash(shell, "pwd")).text == str(workspace)


async def test_the_status_is_told(shell: ToolContext) -> None:
    failed = await bash(shell, "echo before; false")
    syntax = await bash(shell, "if then")

    assert (failed.status, failed.text) == ("error", "before\n[exit status 1]")
    assert syntax.status == "error"
    assert "syntax error" in syntax.text
    assert (await bash(shell, "true")).text == "[no output]"


async def test_there_is_no_input_no_profile_and_a_clean_environment(
    shell: ToolContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".bashrc").write_text("echo PROFILE")
    monkeypatch.setenv("API_KEY", "SECRET")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / ".bashrc"))

    result = await bash(shell, "cat; env; shopt -q login_shell && echo login; exit 0")

    assert "SECRET" not in result.text
    assert "PROFILE" not in result.text
    assert "login" not in result.text
    assert "TERM=dumb" in result.text


async def test_it_is_killed_when_its_time_is_up(shell: ToolContext) -> None:
    result = await bash(shell, "echo begun; sleep 6543.1", timeout=0.4)

    assert (result.status, result.text) == ("timed_out", "begun\n[killed after 0.4 s]")


async def test_cancelling_leaves_no_process(shell: ToolContext) -> None:
    seen = asyncio.Event()

    def progress(text: str) -> None:
        assert text
        seen.set()

    watched = msgspec.structs.replace(shell, progress=progress)
    task = asyncio.create_task(bash(watched, "echo begun; sleep 6543.2"))
    async with asyncio.timeout(10):
        await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    commands = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not [c for c in commands if b"6543.2" in c]


async def test_output_is_shown_while_it_runs(context: ToolContext) -> None:
    pieces: list[str] = []
    watched = msgspec.structs.replace(context, progress=pieces.append)

    await bash(watched, "printf 'gr\\xc3'; sleep 0.05; printf '\\xb6\\xc3\\x9fe'")

    assert "".join(pieces) == "größe"


@pytest.mark.spec("TOOL-03")
async def test_long_output_keeps_both_ends_and_the_whole_can_be_read(shell: ToolContext) -> None:
    result = await bash(shell, "seq 1 100000; exit 2")

    saved = str(result.metadata["saved"])
    assert len(result.text.encode()) < 52_000
    assert result.text.startswith("1\n2\n")
    assert result.text.endswith("99999\n100000\n[exit status 2]")
    assert saved in result.text
    assert Path(saved).read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert "50000" in (await Read().run({"path": saved, "offset": 50_000, "limit": 1}, shell)).text
    small = msgspec.structs.replace(shell, override=ToolOverride(max_output_length=100))
    assert len((await bash(small, "seq 1 1000")).text) < 400


@pytest.mark.spec("PERM-07")
async def test_where_the_sandbox_is_required_and_missing_nothing_runs(
    context: ToolContext, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without bwrap on the path; what was found out before is forgotten for the test."""
    required = msgspec.structs.replace(context, sandbox="require")
    optional = msgspec.structs.replace(context, sandbox="auto")
    (workspace / "bin").mkdir()
    for name in ("bash", "touch"):
        (workspace / "bin" / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(workspace / "bin"))
    available.cache_clear()
    try:
        refused = await bash(required, "touch ran")
        ran = await bash(optional, "touch ran2")
    finally:
        available.cache_clear()

    assert refused.status == "denied"
    assert "the program bwrap is not installed" in refused.text
    assert not (workspace / "ran").exists()
    assert (ran.status, ran.metadata["sandbox"]) == ("ok", "none")


@pytest.mark.spec("PERM-07")
async def test_limits_hold_in_the_sandbox(shell: ToolContext) -> None:
    limits = Limits(memory=300 * 1024**2, processes=60, seconds=20)
    tool = Bash(ToolSettings(limits=limits))

    hungry = await tool.run({"command": "python3 -c 'bytearray(600 * 1024**2)'"}, shell)
    assert "MemoryError" in hungry.text
    if shell.sandbox == "auto":
        forks = await tool.run({"command": "for i in $(seq 200); do sleep 6543.3 & done; wait"}, shell)
        assert forks.status == "error"
        assert "processes" in forks.text or "Resource temporarily unavailable" in forks.text


@pytest.mark.spec("PERM-02", "PERM-07")
async def test_git_does_not_take_files_that_an_agent_wrote_for_a_repository(
    shell: ToolContext, workspace: Path
) -> None:
    """The `core.fsmonitor` of one would run a program, and no rule was asked about that."""
    made, ran = workspace / "x", workspace / "ran"
    for folder in ("objects", "refs"):
        (made / folder).mkdir(parents=True)
    (made / "HEAD").write_text("ref: refs/heads/main\n")
    (made / "config").write_text(f'[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch {ran}; false"\n')

    result = await bash(shell, "git -C x status")

    assert "cannot use bare repository" in result.text
    assert not ran.exists()
