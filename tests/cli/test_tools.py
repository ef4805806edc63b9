from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest

from support.scripted import Setup, call

Run = Callable[..., CompletedProcess[str]]


@pytest.mark.spec("API-02", "TOOL-02")
def test_tools_are_listed_with_their_effect_and_those_of_an_agent_are_what_its_model_gets(run: Run, home: Path) -> None:
    (home / "agents").mkdir(parents=True)
    (home / "agents" / "reader.md").write_text("---\ndescription: Reads.\ntools: [read, bash]\n---\nYou read.\n")

    everything = msgspec.json.decode(run("tools", "list", "--json").stdout, type=list[dict[str, str]])
    own = msgspec.json.decode(run("tools", "list", "--agent", "reader", "--json").stdout, type=list[dict[str, str]])

    assert {t["name"]: t["effect"] for t in everything}["bash"] == "write"
    assert {t["name"] for t in own} == {"read", "bash", "save_memory", "load_memory", "request_user_input"}
    assert run("tools", "list").stdout.startswith("TOOL")


TRIPLE = """
from pathlib import Path

from retinue.tools.function import tool

Path("imported").touch()


@tool(effect="read")
def triple(n: int) -> int:
    "Three times as much."
    return 3 * n
"""


def _state(run: Run) -> dict[str, str]:
    listed = msgspec.json.decode(run("tools", "list", "--json").stdout, type=list[dict[str, str]])
    return {tool["name"]: tool["state"] for tool in listed}


@pytest.mark.spec("TOOL-05")
def test_a_projects_tools_are_shown_and_run_only_while_their_content_is_trusted(
    run: Run, write: Callable[..., Path], project: Path
) -> None:
    file = write(".retinue/tools/triple.py", TRIPLE)
    assert _state(run)["triple"] == "untrusted"
    assert "retinue tools trust" in run("tools", "list").stderr
    assert f"{file} is not trusted" in run("doctor", "--offline").stdout
    assert run("tools", "trust").returncode == 2
    assert not (project / "imported").exists()

    trusted = run("tools", "trust", "--yes")
    assert ("triple.py  triple" in trusted.stdout, trusted.stderr) == (True, "trusted: 1 file\n")
    assert _state(run)["triple"] == ""
    assert (project / "imported").exists()

    file.write_text(TRIPLE + "# changed\n")
    assert _state(run)["triple"] == "untrusted"

    told = msgspec.json.decode(run("tools", "trust", "triple", "--yes", "--json").stdout, type=list[dict[str, object]])
    assert [(row["file"], row["tools"], row["trusted"]) for row in told] == [(str(file), ["triple"], True)]
    assert run("tools", "untrust", str(file)).stderr == "no longer trusted: 1 file\n"
    assert _state(run)["triple"] == "untrusted"


def test_a_broken_file_and_one_that_is_not_there_are_told(run: Run, write: Callable[..., Path]) -> None:
    assert run("tools", "trust").stderr == "this project has no tools: no file in .retinue/tools\n"
    write(".retinue/tools/broken.py", "import nothing_of_that_name")
    run("tools", "trust", "--yes")

    assert "broken.py: ModuleNotFoundError" in run("tools", "list").stderr
    assert "other is no file with tools" in run("tools", "trust", "other", "--yes").stderr


@pytest.mark.spec("TOOL-05")
def test_an_agent_calls_a_function_of_the_project_once_a_person_trusts_it(
    scripted: Setup, write: Callable[..., Path]
) -> None:
    write(".retinue/tools/triple.py", TRIPLE)
    rule = "permissions: {rules: [{tool: triple, verdict: allow}]}"
    scripted.agent("counter", rule, says=[call("triple", n=14), "That is it."])

    before = scripted.retinue("run", "counter", "go", code=0)
    scripted.retinue("tools", "trust", "--yes", code=0)
    scripted.retinue("run", "counter", "go", code=0)
    shown = scripted.retinue("threads", "show", str(scripted.threads()[0]["id"]), code=0)

    assert "✗  triple" in before.stderr
    assert "42" in shown.stdout


@pytest.mark.spec("TOOL-05")
def test_at_a_terminal_trust_is_asked_for(scripted: Setup, write: Callable[..., Path], home: Path) -> None:
    write(".retinue/tools/triple.py", TRIPLE)

    with scripted.terminal("tools", "trust") as terminal:
        terminal.expect("Trust them")
        terminal.type("n\r")
        assert terminal.ends() == 130

    assert not (home / "trust.json").exists()
