from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from retinue.schema.errors import AgentNotFound, DefinitionError, Denied
from retinue.schema.ids import AgentId, Tenant
from retinue.sources.database import CustomAgents, DatabaseSource
from retinue.storage.sqlite import Database, open_database

FIELDS: dict[str, object] = {
    "Name": "Custom Coder",
    "Slug": "custom-coder",
    "Description": "Project-specific",
    "Category": "Primary",
    "ProviderId": "openai",
    "ModelId": "gpt-4o",
    "SystemPrompt": "You are a .NET specialist...",
}


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(tmp_path / "retinue.db")
    yield database
    await database.close()


@pytest.fixture
def agents(database: Database) -> CustomAgents:
    return _agents(database)


def _agents(database: Database, tenant: str = "default") -> CustomAgents:
    ids, times = count(1), count(100)
    return CustomAgents(
        database.records,
        builtin={"coder"},
        now=lambda: float(next(times)),
        new_id=lambda: f"{tenant}-{next(ids)}",
        tenant=Tenant(tenant),
    )


@pytest.mark.spec("REG-09")
async def test_an_agent_is_created_found_changed_and_deleted(database: Database, agents: CustomAgents) -> None:
    created = await agents.create(FIELDS)
    by_id, by_slug = await agents.get(created.id), await agents.get("custom-coder")
    updated = await agents.update("custom-coder", {"MaxIterations": 7})
    snapshot = await DatabaseSource(database.records).load(None)
    await agents.delete(created.id)

    assert by_id == by_slug == created
    assert (created.created_at, created.updated_at, updated.updated_at) == (100.0, None, 101.0)
    definition = snapshot.entries[AgentId("custom-coder")].definition
    assert definition is not None
    assert (definition.temperature, definition.max_steps, definition.category) == (0.7, 7, "primary")
    assert await agents.all() == []


@pytest.mark.spec("REG-09")
async def test_all_that_is_wrong_is_told_at_once_and_nothing_is_written(agents: CustomAgents) -> None:
    with pytest.raises(DefinitionError) as error:
        await agents.create({"Slug": "Bad Slug", "MaxIterations": 0})

    assert [p.message for p in error.value.problems] == [
        "Name is required",
        "Slug must be lowercase alphanumeric with hyphens only",
        "ProviderId is required",
        "ModelId is required",
        "MaxIterations must be at least 1",
        "the agent has no system prompt: write it below the frontmatter, or as system_prompt",
    ]
    assert await agents.all() == []


@pytest.mark.spec("REG-09", "DEF-07")
async def test_what_a_file_may_not_say_a_row_may_not_either(agents: CustomAgents) -> None:
    with pytest.raises(DefinitionError, match="tools"):
        await agents.create({**FIELDS, "Tools": True})


@pytest.mark.spec("REG-09")
async def test_checks_of_rows_and_of_values_are_told_at_once(agents: CustomAgents) -> None:
    with pytest.raises(DefinitionError) as caught:
        await agents.create({**FIELDS, "Slug": "No Slug", "MaxIterations": 10**30, "Tools": True, "temperature": 9})

    assert len(caught.value.problems) == 4


@pytest.mark.spec("REG-09")
async def test_slugs_collide_among_rows_and_a_built_in_needs_override(agents: CustomAgents) -> None:
    await agents.create(FIELDS)

    with pytest.raises(DefinitionError, match="'custom-coder' is already in use"):
        await agents.create(FIELDS)
    with pytest.raises(DefinitionError, match="needs override"):
        await agents.create({**FIELDS, "Slug": "coder"})
    assert (await agents.create({**FIELDS, "Slug": "coder"}, override=True)).override


@pytest.mark.spec("REG-09")
async def test_built_ins_cant_be_changed_or_deleted(agents: CustomAgents) -> None:
    with pytest.raises(Denied, match="built in"):
        await agents.delete("coder")
    with pytest.raises(Denied, match="built in"):
        await agents.update("coder", {"Name": "Mine"})
    with pytest.raises(AgentNotFound):
        await agents.delete("nobody")


@pytest.mark.spec("REG-09")
async def test_agents_are_listed_by_category_and_tenants_do_not_see_each_other(database: Database) -> None:
    one, two = _agents(database, "one"), _agents(database, "two")
    await one.create(FIELDS)
    await one.create({**FIELDS, "Slug": "helper", "Category": "Subagent"})
    await two.create(FIELDS)

    assert [r.slug for r in await one.by_category("subagent")] == ["helper"]
    assert [r.slug for r in await two.all()] == ["custom-coder"]
