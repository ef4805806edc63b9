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


CARD = "https://legal.example/.well-known/agent-card.json"


async def _problems(**fields: object) -> list[str]:
    agents = [{"name": "legal", "description": "d", **fields}]
    source = ConfigurationSource([ConfiguredAgents(file="f", agents=agents, trusted=True)], remote=True)
    [entry] = (await source.load(None)).entries.values()
    return [p.message for p in entry.problems if p.severity == "error"]


@pytest.mark.spec("REG-10")
async def test_remote_agents_of_the_settings_are_an_external_source() -> None:
    files = [ConfiguredAgents(file="f", agents=[{"name": "legal", "agent_card_url": CARD}], trusted=True)]

    snapshot = await ConfigurationSource(files, remote=True).load(None)

    assert (snapshot.name, snapshot.kind, snapshot.priority) == ("a2a", "a2a", "external")
    [entry] = snapshot.entries.values()
    assert entry.definition is not None
    assert (entry.definition.kind, entry.definition.agent_card_url) == ("remote", CARD)
    assert entry.location == "f#remote_agents[0]"


@pytest.mark.spec("REG-10")
async def test_a_remote_agent_has_exactly_one_card() -> None:
    assert await _problems(agent_card_url=CARD) == []
    assert await _problems(agent_card_json='{"name": "x"}') == []
    assert await _problems() == ["a remote agent needs agent_card_url or agent_card_json"]
    assert await _problems(agent_card_url=CARD, agent_card_json="{}") == [
        "a remote agent has agent_card_url or agent_card_json, not both"
    ]


@pytest.mark.spec("REG-10")
@pytest.mark.parametrize(
    "auth",
    [
        {"type": "apiKey", "key": "$LEGAL_KEY"},
        {"type": "http", "scheme": "Bearer", "token": "$LEGAL_TOKEN"},
        {"type": "http", "scheme": "Basic", "username": "u", "password": "$LEGAL_PASSWORD"},
        {"type": "oauth", "client_id": "x"},
        {"type": "google-credentials"},
    ],
)
async def test_every_kind_of_auth_is_known(auth: dict[str, str]) -> None:
    assert await _problems(agent_card_url=CARD, auth=auth) == []


@pytest.mark.spec("REG-10")
async def test_an_unknown_kind_of_auth_is_an_error() -> None:
    [message] = await _problems(agent_card_url=CARD, auth={"type": "magic"})

    assert "'magic'" in message
