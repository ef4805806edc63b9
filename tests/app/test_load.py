from pathlib import Path

import pytest

from retinue import DefinitionError, define_agent, load_agent, load_catalog


@pytest.mark.spec("DEF-01")
def test_a_file_is_loaded_with_the_prompts_beside_it(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "judge.md").write_text("Judge.")
    file = tmp_path / "talk.md"
    file.write_text("---\ndescription: d\ntype: dual_ai\nmax_session_turns: 2\nside_b: {prompt: judge}\n---\nTalk.\n")

    agent = load_agent(file)

    assert (agent.id, agent.prompt, agent.prompts["judge"].text) == ("talk", "Talk.", "Judge.")


@pytest.mark.spec("DEF-04")
def test_a_folders_file_has_the_folders_name(tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "prompt.md").write_text("---\ndescription: d\n---\nx\n")

    assert load_agent(str(tmp_path / "sales" / "prompt.md")).id == "sales"


@pytest.mark.spec("DEF-05", "DEF-08")
@pytest.mark.parametrize(
    ("text", "said"),
    [("---\ntools: true\n---\nx\n", "'tools' is true"), ("# Read me\n", "has no frontmatter"), (None, "can't be read")],
)
def test_what_is_no_agent_says_why(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "x.md").write_text(text)

    with pytest.raises(DefinitionError, match=said):
        load_agent(tmp_path / "x.md")


@pytest.mark.spec("DEF-12")
def test_a_catalog_is_loaded_with_agents_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_HOME", str(tmp_path / "home"))
    mine = define_agent(name="mine", description="d", prompt="p")

    assert load_catalog(tmp_path, code=[mine]).resolve("mine").source == "code"
