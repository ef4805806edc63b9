import pytest

from retinue.schema.agent import ToolFilter
from retinue.schema.ids import AgentId
from retinue.sources.configuration import ConfigurationSource, ConfiguredAgents

S3_AGENT: dict[str, object] = {
    "Name": "Custom Coder",
    "Slug": "custom-coder",
    "Description": "Project-specific coding assistant",
    "Category": "Primary",
    "ProviderId": "openai",
    "ModelId": "gpt-4o",
    "SystemPrompt": "You are a .NET specialist...",
    "CanSpawnSubagents": True,
    "MaxIterations": 40,
    "Tools": {"Mode": "AllExcept", "ToolList": []},
    "IconEmoji": "🔧",
    "Color": "#8B5CF6",
}


@pytest.mark.spec("REG-13", "DEF-01")
async def test_s3s_custom_agent_loads_as_printed() -> None:
    source = ConfigurationSource([ConfiguredAgents(file="retinue.json", agents=[S3_AGENT], trusted=True)])

    [(id, entry)] = (await source.load(None)).entries.items()

    definition = entry.definition
    assert (id, entry.problems, entry.location) == ("custom-coder", (), "retinue.json#agents.custom[0]")
    assert definition is not None
    assert (definition.name, definition.category, definition.provider, definition.model, definition.max_steps) == (
        "Custom Coder",
        "primary",
        "openai",
        "gpt-4o",
        40,
    )
    assert (definition.prompt, definition.icon, definition.tools) == (
        "You are a .NET specialist...",
        "🔧",
        ToolFilter(),
    )


@pytest.mark.spec("DEF-08", "REG-13")
async def test_a_number_that_nothing_can_keep_spoils_its_own_agent_only() -> None:
    agents = [{**S3_AGENT, "MaxIterations": 10**30}, {**S3_AGENT, "Slug": "other"}]
    entries = (await ConfigurationSource([ConfiguredAgents(file="f", agents=agents, trusted=True)]).load(None)).entries

    assert [p.code for p in entries[AgentId("custom-coder")].problems] == ["bad-value"]
    assert entries[AgentId("other")].definition is not None


@pytest.mark.spec("REG-01", "REG-13")
async def test_the_stronger_file_wins_and_each_file_has_its_own_trust() -> None:
    project = ConfiguredAgents(
        file="project", agents=[{"name": "One", "description": "d", "system_prompt": "p"}], trusted=False
    )
    user = ConfiguredAgents(
        file="user",
        agents=[
            {"slug": "one", "description": "d", "system_prompt": "q"},
            {"slug": "two", "description": "d", "system_prompt": "r"},
            {"description": "nameless"},
        ],
        trusted=True,
    )

    snapshot = await ConfigurationSource([project, user]).load(None)

    assert {id: (e.location, e.trusted) for id, e in snapshot.entries.items()} == {
        "one": ("project#agents.custom[0]", False),
        "two": ("user#agents.custom[1]", True),
    }
    assert [p.code for p in snapshot.problems] == ["duplicate-id", "missing-key"]


@pytest.mark.spec("DEF-08")
async def test_a_broken_agent_is_an_entry_with_its_problems() -> None:
    agents = [{"slug": "bad", "description": "d", "system_prompt": "p", "tools": True}]

    snapshot = await ConfigurationSource([ConfiguredAgents(file="f", agents=agents, trusted=True)]).load(None)

    entry = snapshot.entries[AgentId("bad")]
    assert entry.definition is None
    assert [p.file for p in entry.problems] == ["f#agents.custom[0]"]
