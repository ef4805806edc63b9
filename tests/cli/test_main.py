from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import click
import pytest

from retinue.cli.main import COMMANDS, app

Run = Callable[..., CompletedProcess[str]]

HEAVY = (
    "aiohttp", "a2a", "asyncio", "fastapi", "genai_prices", "html_to_markdown", "httpx", "jsonschema", "jsonschema_rs",
    "mcp", "prompt_toolkit", "pydantic", "rich", "sqlite3", "sqlalchemy", "starlette", "subprocess", "tomllib",
    "tree_sitter", "typer", "uvicorn", "watchfiles",
)  # fmt: skip
"""What a fast command may not load."""

HELP = frozenset(
    {
        "retinue",
        "retinue.cli",
        "retinue.cli.main",
    }
)
"""Our own modules that `retinue --help` loads, exactly."""

LIST_LEAVES_OUT = (
    "retinue.app.load", "retinue.cli.agent_files", "retinue.cli.repos", "retinue.cli.doctor", "retinue.models",
    "retinue.net.client", "retinue.policy", "retinue.runtime", "retinue.sources.git", "retinue.sources.mirror",
    "retinue.sources.database", "retinue.sources.watch", "retinue.storage", "retinue.tools",
)  # fmt: skip


def _loaded(process: Run, *args: str) -> set[str]:
    program = (
        "import sys; before = set(sys.modules); from retinue.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sorted(set(sys.modules) - before))"
    )
    out = process(*args, python=program).stdout
    return set(out.rpartition("MODULES ")[2].split())


def test_help_loads_these_modules_of_ours_and_nothing_heavy(process: Run) -> None:
    loaded = _loaded(process, "--help")

    assert {name for name in loaded if name.startswith("retinue")} == HELP
    assert {name.partition(".")[0] for name in loaded} & set(HEAVY) == set()


def test_listing_agents_of_a_small_project_loads_nothing_heavy(process: Run, write: Callable[..., Path]) -> None:
    write("agents/x.md")

    loaded = _loaded(process, "agents", "list", "--source", "project")

    assert "retinue.registry.catalog" in loaded
    assert {name.partition(".")[0] for name in loaded} & set(HEAVY) == set()
    assert loaded & set(LIST_LEAVES_OUT) == set()


def test_listing_threads_loads_nothing_that_runs_them(process: Run) -> None:
    loaded = _loaded(process, "threads", "list")

    left_out = {"retinue.runtime.engine", "retinue.policy", "retinue.tools", "retinue.models", "aiohttp", "mcp"}
    assert "retinue.storage.sqlite" in loaded
    assert loaded & left_out == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there_and_says_what_it_does(name: str, run: Run) -> None:
    ran = run(name, "--help")

    assert ran.returncode == 0
    assert ran.stdout.startswith(f"Usage: retinue {name}")
    assert COMMANDS[name][1] in run("--help").stdout.replace("\n" + " " * 13, " ")


@pytest.mark.parametrize("name", ["agents", "repos"])
def test_every_command_of_a_group_is_a_command(name: str) -> None:
    group = app.get_command(click.Context(app), name)

    assert isinstance(group, click.Group)
    context = click.Context(group)
    assert all(group.get_command(context, command) is not None for command in group.list_commands(context))


def test_a_wrong_command_is_wrong_usage_with_a_near_name(run: Run) -> None:
    ran = run("agnets")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "No such command 'agnets'. Did you mean 'agents'?" in ran.stderr


def test_an_error_is_told_without_a_traceback_unless_asked_for(
    run: Run, process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("agents", "show", "nobody")
    monkeypatch.setenv("RETINUE_DEBUG", "1")
    debug = process("agents", "show", "nobody")

    assert ran.returncode == 1
    assert ran.stderr.startswith("retinue: there is no agent 'nobody'")
    assert "Traceback" not in ran.stderr
    assert (debug.returncode, "Traceback" in debug.stderr) == (1, True)


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").stdout.startswith("retinue ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shells_script(shell: str, run: Run) -> None:
    ran = run("completion", shell)

    assert ran.returncode == 0
    assert "_RETINUE_COMPLETE" in ran.stdout


def test_commands_complete(process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RETINUE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "retinue agents va")
    monkeypatch.setenv("COMP_CWORD", "2")

    assert process().stdout == "plain,validate\n"


def test_a_reader_that_goes_away_is_no_failure_to_talk_about(process: Run) -> None:
    program = (
        "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "from retinue.cli.main import main; main(['agents', 'list'])"
    )
    ran = process(python=program)

    assert (ran.returncode, "Traceback" in ran.stderr, "Exception" in ran.stderr) == (1, False, False)
