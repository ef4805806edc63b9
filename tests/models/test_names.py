"""Names as people write them in agent files."""

import pytest

from retinue.models.names import maker_of, normalised


@pytest.mark.spec("MOD-02")
@pytest.mark.parametrize(
    ("written", "id"),
    [
        ("Claude Sonnet 4.5 (copilot)", "claude-sonnet-4-5"),
        ("Claude Sonnet 4", "claude-sonnet-4"),
        ("claude-opus-4.7", "claude-opus-4-7"),
        ("claude-4.6-opus-high-thinking", "claude-opus-4-6"),
        ("claude-4-sonnet", "claude-sonnet-4"),
        ("claude-3.5-sonnet", "claude-3-5-sonnet"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-20250514"),
        ("GPT-5 mini (copilot)", "gpt-5-mini"),
        ("GPT-5-Codex (Preview) (copilot)", "gpt-5-codex"),
        ("GPT-4.1", "gpt-4.1"),
        ("gemini-2.0-flash", "gemini-2.0-flash"),
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("ollama/qwen2.5:1.5b", "ollama/qwen2.5:1.5b"),
    ],
)
def test_a_display_name_becomes_an_id(written: str, id: str) -> None:
    assert normalised(written) == id


@pytest.mark.parametrize(
    ("model", "maker"),
    [
        ("claude-sonnet-5-5", "anthropic"),
        ("gpt-4o", "openai"),
        ("o3", "openai"),
        ("o4-mini", "openai"),
        ("gemini-3-pro", "gemini"),
        ("openrouter/anthropic/claude-x", "anthropic"),
        ("llama3.2:1b", None),
        ("olmo-2", None),
        ("openhermes", None),
    ],
)
def test_the_maker_shows_in_the_name(model: str, maker: str | None) -> None:
    assert maker_of(model) == maker
