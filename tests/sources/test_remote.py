import pytest

from retinue.sources.configuration import ConfiguredAgents
from retinue.sources.remote import RemoteSource

CARD = "https://legal.example/.well-known/agent-card.json"


async def _problems(**fields: object) -> list[str]:
    agents = [{"name": "legal", "description": "d", **fields}]
    source = RemoteSource([ConfiguredAgents(file="f", agents=agents, trusted=True)])
    [entry] = (await source.load(None)).entries.values()
    return [p.message for p in entry.problems if p.severity == "error"]


@pytest.mark.spec("REG-10")
async def test_remote_agents_of_the_settings_are_an_external_source() -> None:
    files = [ConfiguredAgents(file="f", agents=[{"name": "legal", "agent_card_url": CARD}], trusted=True)]

    snapshot = await RemoteSource(files).load(None)

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
