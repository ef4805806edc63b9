"""Memory over HTTP."""

import pytest

from support.serving import Api

ITEM = "/v1/memory/item?namespace=sales/assistant&key="


@pytest.mark.spec("MEM-01")
async def test_values_are_saved_listed_read_and_forgotten(api: Api) -> None:
    client = await api.client("memory:*")
    value = {"any": ["JSON", 1, None, True]}

    saved = await client.ask("PUT", f"{ITEM}lead", {"value": value})
    await client.ask("PUT", f"{ITEM}null", {"value": None})

    assert (saved.status, saved.json["value"]) == (200, value)
    assert (await client.get(f"{ITEM}lead")).json["value"] == value
    listed = (await client.get("/v1/memory?namespace=sales/assistant")).json["items"]
    assert [(item["key"], item["value"]) for item in listed] == [("lead", value), ("null", None)]
    assert (await client.get("/v1/memory?namespace=other")).json["items"] == []
    assert (await client.ask("DELETE", f"{ITEM}lead")).status == 204
    assert (await client.ask("DELETE", f"{ITEM}lead")).status == 404
    assert (await client.get(f"{ITEM}lead")).json["code"] == "not_found"


@pytest.mark.spec("MEM-01")
async def test_an_expiry_in_the_past_is_an_error_and_an_expired_value_is_absent(api: Api) -> None:
    client = await api.client("memory:*")
    now = api.app.engine.runtime.clock.now()

    past = await client.ask("PUT", f"{ITEM}old", {"value": 1, "expires": now - 1})
    soon = await client.ask("PUT", f"{ITEM}soon", {"value": 1, "expires": now + 3600})

    assert (past.status, past.json["code"]) == (400, "usage")
    assert (soon.status, soon.json["expires"]) == (200, now + 3600)
    assert (await client.get(f"{ITEM}old")).status == 404
