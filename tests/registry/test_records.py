from collections.abc import Mapping

import pytest

from retinue.ports.records import AgentRecord
from retinue.registry.records import canonical_fields, changed_record, check, new_record

S3_AGENT: Mapping[str, object] = {
    "Name": "Custom Coder",
    "Slug": "custom-coder",
    "Description": "Project-specific coding assistant",
    "Category": "Primary",
    "ProviderId": "openai",
    "ModelId": "gpt-4o",
    "SystemPrompt": "You are a .NET specialist...",
    "CanSpawnSubagents": True,
    "AllowedSubagentTypes": [],
    "MaxIterations": 40,
    "IsVisible": True,
    "IsBuiltIn": True,
    "CreatedAt": "2001-01-01",
}


def _check(
    fields: Mapping[str, object], *, taken: Mapping[str, str] | None = None, override: bool = False
) -> tuple[str, ...]:
    return check(canonical_fields(fields), taken=taken or {}, builtin={"coder"}, id="me", override=override)


@pytest.mark.spec("REG-09")
def test_s3s_spelling_becomes_canonical_and_what_only_we_set_is_dropped() -> None:
    assert canonical_fields(S3_AGENT) == {
        "name": "Custom Coder",
        "slug": "custom-coder",
        "description": "Project-specific coding assistant",
        "category": "Primary",
        "provider": "openai",
        "model": "gpt-4o",
        "system_prompt": "You are a .NET specialist...",
        "can_spawn_subagents": True,
        "max_steps": 40,
        "IsVisible": True,
    }


@pytest.mark.spec("REG-09")
def test_a_good_agent_has_no_errors() -> None:
    assert _check(S3_AGENT) == ()


@pytest.mark.spec("REG-09")
def test_all_errors_are_told_at_once_in_s3s_words() -> None:
    assert _check({"Slug": "Not A Slug", "MaxIterations": 0}) == (
        "Name is required",
        "Slug must be lowercase alphanumeric with hyphens only",
        "ProviderId is required",
        "ModelId is required",
        "MaxIterations must be at least 1",
    )
    assert _check({}) == ("Name is required", "Slug is required", "ProviderId is required", "ModelId is required")


@pytest.mark.spec("REG-09")
def test_a_slug_collides_with_another_row_and_not_with_its_own() -> None:
    assert _check(S3_AGENT, taken={"custom-coder": "other"}) == ("Slug 'custom-coder' is already in use",)
    assert _check(S3_AGENT, taken={"custom-coder": "me"}) == ()


@pytest.mark.spec("REG-09")
def test_replacing_a_built_in_needs_override() -> None:
    coder = {**S3_AGENT, "Slug": "coder"}

    assert _check(coder) == ("Slug 'coder' is a built-in agent's; replacing it needs override",)
    assert _check(coder, override=True) == ()


@pytest.mark.spec("REG-09", "DEF-15")
def test_a_new_row_gets_s3s_temperature_and_our_time() -> None:
    record = new_record({"slug": "x", "name": "X"}, id="1", now=5.0)

    assert record == AgentRecord(
        id="1", slug="x", fields={"temperature": 0.7, "slug": "x", "name": "X"}, created_at=5.0
    )


@pytest.mark.spec("REG-09")
def test_an_update_replaces_a_field_under_any_of_its_names_and_null_takes_it_back() -> None:
    record = new_record({"slug": "x", "name": "X", "IsVisible": False, "description": "d"}, id="1", now=5.0)

    changed = changed_record(record, canonical_fields({"hidden": False, "Description": None}), now=9.0)

    assert changed.fields == {"temperature": 0.7, "slug": "x", "name": "X", "hidden": False}
    assert (changed.created_at, changed.updated_at) == (5.0, 9.0)
