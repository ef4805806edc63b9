import pytest

from retinue.sources.builtin import BuiltinSource, builtin_slugs


@pytest.mark.spec("REG-12")
async def test_every_built_in_agent_loads_and_is_read_once() -> None:
    source = BuiltinSource()

    snapshot = await source.load(None)

    assert [p for e in snapshot.entries.values() for p in e.problems] == []
    assert {"coder", "planner", "reviewer", "explore", "general", "researcher"} <= snapshot.entries.keys()
    assert snapshot.entries.keys() == builtin_slugs()
    assert await source.load(snapshot) is snapshot
