from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest

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
