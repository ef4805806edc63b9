import pytest

from retinue.definition.ids import agent_id, fold, precedence


@pytest.mark.spec("DEF-04")
@pytest.mark.parametrize(
    ("path", "id"),
    [
        ("sales/assistant/prompt.md", "sales/assistant"),
        ("sales/assistant/agent.md", "sales/assistant"),
        ("sales/assistant.md", "sales/assistant"),
        ("reviewer.agent.md", "reviewer"),
        ("a/reviewer.chatmode.md", "a/reviewer"),
        ("agent.md", "agent"),
        ("prompt.md", "prompt"),
        ("Ünïcode name.md", "Ünïcode name"),
        ("v1.2.md", "v1.2"),
    ],
)
def test_the_path_is_the_id(path: str, id: str) -> None:
    assert agent_id(path) == id


@pytest.mark.spec("DEF-05")
@pytest.mark.parametrize(
    "path",
    [
        "_draft.md",
        "a/_draft.md",
        "prompts/a.md",
        "a/prompts/b.md",
        "a.txt",
        "README",
        "../a.md",
        "a//b.md",
        "./a.md",
        "a\nb.md",
        "a\\b.md",
        " a.md",
        "a:b.md",
        ".md",
    ],
)
def test_some_paths_hold_no_agent(path: str) -> None:
    assert agent_id(path) is None


@pytest.mark.spec("DEF-04")
def test_of_two_files_with_one_id_the_prompt_file_comes_first() -> None:
    paths = ["a/b.md", "a/b/agent.md", "a/b/prompt.md", "a/b.agent.md"]

    assert {agent_id(path) for path in paths} == {"a/b"}
    assert sorted(paths, key=precedence)[:2] == ["a/b/prompt.md", "a/b/agent.md"]


@pytest.mark.spec("DEF-04")
def test_folding_forgets_case_and_the_two_dashes() -> None:
    assert fold("Sales/PR_Agent") == fold("sales/pr-agent")
