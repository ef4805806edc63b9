"""What a command in the sandbox can't do, tried for real."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from retinue.sandbox.bubblewrap import available

from .conftest import Inside, need_bubblewrap

pytestmark = pytest.mark.spec("PERM-07")


async def test_the_workspace_is_writable_and_the_rest_is_not(inside: Inside, outside: Path) -> None:
    (outside / "beside").write_text("x")

    assert (await inside("echo hi > made && mkdir d && mv made d/ && cat d/made")).code == 0
    assert inside.output == "hi\n"
    await inside.refuses(
        *(f"echo y > {outside}/beside", f"rm {outside}/beside", f"touch {outside}/new", "touch /etc/x /usr/x"),
        *(
            "echo x > /proc/sys/kernel/hostname",
            "echo 0 > /proc/sys/kernel/panic_on_warn",
            "touch /sys/x",
            "touch /usr/lib/x",
        ),
    )
    assert (outside / "beside").read_text() == "x"


async def test_protected_files_can_not_be_changed_removed_or_moved(inside: Inside) -> None:
    work = inside.workspace
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".git/config").write_text("[core]\n")
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (work / ".retinue/agents").mkdir(parents=True)
    (work / ".retinue/agents/a.md").write_text("a")
    (work / "nested/.git/hooks").mkdir(parents=True)
    (work / "nested/.git/config").write_text("[core]\n")
    await inside.refuses(
        *("echo x >> .git/config", "rm .git/config", "mv .git/config .git/c", "ln -sf /dev/null .git/config"),
        *("mv .git .git2", "rm -rf .git", "touch .git/hooks/pre-commit", "mv .git/hooks .git/h", "rmdir .git/hooks"),
        *("echo > .retinue/agents/a.md", "touch .retinue/new", "mv .retinue r2", "rm -rf .retinue"),
        *("echo x >> nested/.git/config", "touch nested/.git/hooks/x", "rm -rf nested"),
        *("umount .git/config", "mount -o remount,rw,bind .git/config", "mount -t tmpfs none .git"),
        "python3 -c 'import os; os.unlink(\".git/config\")'",
    )

    await inside("echo evil > .git/commondir")
    assert (work / ".git/config").read_text() == "[core]\n"
    assert (work / ".retinue/agents/a.md").read_text() == "a"
    assert not (work / ".git/commondir").exists()
    assert (await inside("echo object > .git/object && cat .git/object")).code == 0


async def test_git_commits_in_the_sandbox(inside: Inside) -> None:
    setup = "git init -q . && git config user.name n && git config user.email e@example.org"
    process = await asyncio.create_subprocess_shell(setup, cwd=inside.workspace)
    assert await process.wait() == 0

    done = await inside("echo 1 > a && git add -A && git commit -qm one && git status --porcelain && git log --oneline")

    assert done.code == 0, inside.output
    assert inside.output.endswith(" one\n")
    assert len(inside.output.splitlines()) == 1


async def test_protected_files_that_are_absent_can_not_be_created_and_nothing_is_left_behind(inside: Inside) -> None:
    await inside.refuses(
        *("mkdir .git", "git init", "mkdir -p .retinue && echo x > .retinue/permissions.toml", "touch .mcp.json"),
        *("echo x > .envrc", "mkdir -p .claude/hooks && touch .claude/hooks/x", "rmdir .retinue", "rm -f .mcp.json"),
        *("mv .git away", "ln -s x retinue.toml", "echo > .vscode/tasks.json"),
    )

    assert list(inside.workspace.iterdir()) == []


async def test_what_a_killed_command_left_standing_in_goes_with_the_next(inside: Inside) -> None:
    for name in (".retinue", ".mcp.json"):
        (inside.workspace / name).mkdir()

    await inside.refuses("touch .retinue/x", "touch .mcp.json/x")

    assert list(inside.workspace.iterdir()) == []


async def test_what_the_operator_protects_is_pinned_too(outside: Path) -> None:
    need_bubblewrap()
    for name in ("work/agents", "tmp"):
        (outside / name).mkdir(parents=True)
    (outside / "work/agents/a.md").write_text("a")
    inside = Inside(outside / "work", outside / "tmp", outside, protected=(f"{outside}/work/agents",))

    await inside.refuses("echo x > agents/a.md", "touch agents/b.md", "mv agents b")


async def test_a_protected_link_that_was_replaced_is_put_back(inside: Inside, outside: Path) -> None:
    (outside / "agents").mkdir()
    (inside.workspace / ".retinue").symlink_to(outside / "agents")

    await inside("rm .retinue; mkdir .retinue; touch .retinue/evil")

    assert (inside.workspace / ".retinue").readlink() == outside / "agents"
    assert list((outside / "agents").iterdir()) == []


async def test_two_commands_at_once_do_not_take_each_others_pins_away(inside: Inside, outside: Path) -> None:
    second = Inside(inside.workspace, outside / "tmp", outside / "home")
    for name in ("started", "go"):
        os.mkfifo(inside.workspace / name)
    slow = asyncio.create_task(inside("echo > started; read < go; mkdir .git"))
    await asyncio.to_thread((inside.workspace / "started").read_text)
    assert (await second("true")).code == 0

    await asyncio.to_thread((inside.workspace / "go").write_text, "now\n")

    assert (await slow).code != 0
    assert not (inside.workspace / ".git").exists()


async def test_there_is_no_network_unless_it_is_allowed(inside: Inside) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port}"

        assert (await inside(script)).code != 0
        assert (await inside(script, network=True)).code == 0


async def test_further_namespaces_and_capabilities_are_out_of_reach(inside: Inside) -> None:
    if not available().flags:
        assert os.environ.get("CI") != "true", "bubblewrap 0.8 or later is wanted where CI=true"
        pytest.skip("this bubblewrap can't forbid user namespaces")
    await inside.refuses("unshare -U true", "unshare -m true", "unshare -Ur mount -t tmpfs none /tmp", "chroot / true")
    await inside("grep CapEff /proc/self/status")
    assert inside.output.split() == ["CapEff:", "0000000000000000"]


async def test_other_processes_and_their_environment_are_not_seen(inside: Inside) -> None:
    await inside('ls /proc | grep -c "^[0-9]"; cat /proc/*/environ | tr "\\0" "\\n"', env={"ONLY": "this"})

    count, *rest = inside.output.splitlines()
    assert int(count) < 10
    assert not [line for line in rest if line.startswith(("HOME=", "PYTEST", "USER="))]
    assert (await inside(f"kill -0 {os.getpid()}")).code != 0


async def test_secrets_of_the_home_folder_are_out_of_sight(inside: Inside, outside: Path) -> None:
    home = outside / "home"
    (home / ".ssh").mkdir()
    (home / ".ssh/id_ed25519").write_text("SECRET")
    (home / ".netrc").write_text("SECRET")
    (home / "notes.txt").write_text("plain")

    await inside(f"cat {home}/.ssh/id_ed25519 {home}/.netrc {home}/notes.txt")

    assert "SECRET" not in inside.output
    assert "plain" in inside.output


async def test_the_home_folder_as_workspace_still_hides_secrets_and_pins_start_files(outside: Path) -> None:
    need_bubblewrap()
    home = outside / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/key").write_text("SECRET")
    (outside / "tmp").mkdir()
    inside = Inside(home, outside / "tmp", home)

    await inside.refuses("cat .ssh/key", "echo x > .bashrc", "echo y > .profile", "mv .ssh s")
    assert sorted(p.name for p in home.iterdir()) == [".ssh"]


async def test_temporary_files_stay_between_commands_and_out_of_the_systems_tmp(inside: Inside) -> None:
    await inside("echo kept > /tmp/retinue-note")
    await inside("cat /tmp/retinue-note")

    assert inside.output == "kept\n"
    assert not Path("/tmp/retinue-note").exists()


async def test_programs_of_an_environment_below_tmp_are_there_and_nothing_beside_them(
    inside: Inside, tmp_path: Path
) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/lib").write_text("library")
    (tmp_path / "beside").write_text("private")
    program = tmp_path / "venv/bin/greet"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/venv/lib\n")
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}"}

    await inside("greet", env=path)
    assert inside.output == "library"
    assert (await inside(f"cat {tmp_path}/beside || echo x > {tmp_path}/venv/bin/greet", env=path)).code != 0
    assert program.read_text().startswith("#!/bin/sh")


async def test_nothing_survives_the_command(inside: Inside) -> None:
    await inside("setsid sleep 4321.5 & disown; nohup sleep 4321.5 >/dev/null 2>&1 & echo started")

    assert inside.output == "started\n"
    running = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not [line for line in running if b"sleep\x004321.5" in line]
