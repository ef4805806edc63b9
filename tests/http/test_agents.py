"""Agents over HTTP: the catalog, and S3's registry of custom agents."""

import pytest

from support.serving import Api

FIELDS = {
    "Name": "Release notes",
    "Slug": "release-notes",
    "Description": "Writes release notes.",
    "ProviderId": "openai",
    "ModelId": "gpt",
    "SystemPrompt": "You write release notes.",
    "Mode": "Subagent",
    "DisplayOrder": 1,
}


@pytest.mark.spec("REG-09")
async def test_a_custom_agent_is_created_shown_changed_and_deleted(api: Api) -> None:
    client = await api.client("agents:write")

    made = await client.post("/v1/agents", FIELDS)
    assert made.status == 201, made.body
    assert made.headers["location"] == "/v1/agents/release-notes"
    assert (made.json["slug"], made.json["is_built_in"], made.json["updated_at"]) == ("release-notes", False, None)
    by_slug = (await client.get("/v1/agents/release-notes")).json
    by_id = (await client.get(f"/v1/agents/{made.json['id']}")).json
    assert by_slug == by_id
    assert (by_slug["agent"]["source"], by_slug["definition"]["temperature"]) == ("database", 0.7)
    changed = await client.ask("PATCH", "/v1/agents/release-notes", {"description": "Writes them well."})
    assert (changed.status, changed.json["fields"]["description"]) == (200, "Writes them well.")
    assert (await client.get("/v1/agents/resolve?name=release-notes")).json["agent"][
        "description"
    ] == "Writes them well."
    listed = (await client.get("/v1/agents?category=subagent&source=database")).json["items"]
    assert [agent["id"] for agent in listed] == ["release-notes"]
    assert "release-notes" in [a["id"] for a in (await client.get("/v1/agents?view=subagent_types")).json["items"]]
    assert (await client.ask("DELETE", "/v1/agents/release-notes")).status == 200
    gone = await client.get("/v1/agents/release-notes")
    assert (gone.status, gone.json["code"]) == (404, "agent_not_found")


@pytest.mark.spec("REG-09")
async def test_everything_that_is_wrong_with_an_agent_is_told_at_once(api: Api) -> None:
    client = await api.client("agents:write")

    wrong = await client.post("/v1/agents", {"Slug": "Not A Slug", "MaxIterations": 0})

    assert (wrong.status, wrong.json["code"]) == (422, "bad_definition")
    assert [fault["message"] for fault in wrong.json["errors"]] == [
        "Name is required",
        "Slug must be lowercase alphanumeric with hyphens only",
        "ProviderId is required",
        "ModelId is required",
        "MaxIterations must be at least 1",
        "the agent has no system prompt: write it below the frontmatter, or as system_prompt",
    ]


@pytest.mark.spec("REG-09")
async def test_built_in_agents_are_replaced_only_on_purpose_and_never_changed(api: Api) -> None:
    client = await api.client("agents:write")
    coder = {**FIELDS, "Slug": "coder"}

    assert (await client.post("/v1/agents", coder)).status == 422
    assert (await client.ask("PATCH", "/v1/agents/coder", {"description": "x"})).status == 403
    assert (await client.ask("DELETE", "/v1/agents/coder")).status == 403
    assert (await client.post("/v1/agents?override=true", coder)).status == 201
    assert (await client.get("/v1/agents/resolve?name=coder")).json["source"] == "database"
    assert (await client.post("/v1/agents?override=true", coder)).status == 422  # the slug is in use


@pytest.mark.spec("REG-08")
async def test_a_name_resolves_with_each_place_that_was_tried(api: Api) -> None:
    client = await api.client("agents:read")

    found = (await client.get("/v1/agents/resolve?name=builtin:coder")).json
    missing = await client.get("/v1/agents/resolve?name=codr")

    assert (found["id"], found["source"], found["isNamespaced"]) == ("coder", "builtin", False)
    assert found["tried"][-1]["outcome"] == "found"
    assert (missing.status, missing.json["hint"]) == (404, "did you mean coder?")


@pytest.mark.spec("REG-09")
async def test_visible_agents_come_in_display_order_and_in_pages(api: Api) -> None:
    client = await api.client("agents:write")
    for slug, order in (("one", 2), ("two", 1)):
        made = await client.post("/v1/agents", {**FIELDS, "Slug": slug, "Name": slug, "DisplayOrder": order - 10})
        assert made.status == 201

    first = (await client.get("/v1/agents?view=visible&limit=2")).json

    assert [agent["id"] for agent in first["items"]] == ["two", "one"]
    rest = (await client.get(f"/v1/agents?view=visible&limit=500&cursor={first['next']}")).json
    ids = [agent["id"] for agent in rest["items"]]
    assert "coder" in ids and "two" not in ids and "title" not in ids
    assert rest["next"] is None
    everything = [agent["id"] for agent in (await client.get("/v1/agents?view=all&limit=500")).json["items"]]
    assert "title" in everything
