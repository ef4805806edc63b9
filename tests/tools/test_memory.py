from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from retinue.app.clock import SystemClock
from retinue.ports.memory import Memory
from retinue.ports.tool import ToolContext
from retinue.storage.sqlite import open_database
from retinue.tools.memory import LoadMemory, SaveMemory


class FixedClock(SystemClock):
    def __init__(self) -> None:
        self.time = 1_900_000_000.0

    def now(self) -> float:
        return self.time


@dataclass
class Remembered:
    memory: Memory
    clock: FixedClock

    async def save(self, context: ToolContext, key: str, value: object, **more: object) -> str:
        arguments = {"key": key, "value": value, **more}
        return (await SaveMemory(self.memory, self.clock).run(arguments, context)).text

    async def load(self, context: ToolContext, key: str) -> dict[str, object]:
        result = await LoadMemory(self.memory, self.clock).run({"key": key}, context)
        return msgspec.json.decode(result.text, type=dict[str, object])


@pytest.fixture
async def remembered(tmp_path: Path) -> AsyncIterator[Remembered]:
    database = await open_database(tmp_path / "memory.db")
    yield Remembered(database.memory, FixedClock())
    await database.close()


@pytest.mark.spec("MEM-01", "TOOL-10")
@pytest.mark.parametrize("value", [{"a": [1, None]}, [1, 2], "text", 3.5, True, None])
async def test_any_json_value_comes_back(value: object, remembered: Remembered, context: ToolContext) -> None:
    await remembered.save(context, "k", value)

    assert await remembered.load(context, "k") == {"found": True, "value": value}


@pytest.mark.spec("MEM-01")
async def test_what_is_absent_or_expired_is_not_found(remembered: Remembered, context: ToolContext) -> None:
    await remembered.save(context, "k", 1, expiresAt="2030-03-17T18:00:00Z")

    assert await remembered.load(context, "k") == {"found": True, "value": 1}
    remembered.clock.time += 3600
    assert await remembered.load(context, "k") == {"found": False}
    assert await remembered.load(context, "other") == {"found": False}


@pytest.mark.spec("MEM-01")
async def test_a_past_or_malformed_expiry_is_an_error_and_nothing_is_saved(
    remembered: Remembered, context: ToolContext
) -> None:
    assert "which is past" in await remembered.save(context, "k", 1, expiresAt="2001-01-01T00:00:00Z")
    assert "is no time" in await remembered.save(context, "k", 1, expiresAt="tomorrow")
    assert "at most 1,000,000" in await remembered.save(context, "k", "x" * 1_000_001)
    assert await remembered.load(context, "k") == {"found": False}


@pytest.mark.spec("MEM-01")
async def test_memory_is_of_the_agent_and_tenant_unless_a_namespace_is_shared(
    remembered: Remembered, context: ToolContext
) -> None:
    other = msgspec.structs.replace(context, agent=msgspec.structs.replace(context.agent, id="other"))
    shared = [
        msgspec.structs.replace(c, agent=msgspec.structs.replace(c.agent, memory_namespace="team"))
        for c in (context, other)
    ]
    await remembered.save(context, "k", "mine")
    await remembered.save(shared[0], "k", "ours")

    assert await remembered.load(other, "k") == {"found": False}
    assert await remembered.load(msgspec.structs.replace(context, tenant="else"), "k") == {"found": False}
    assert await remembered.load(context, "k") == {"found": True, "value": "mine"}
    assert await remembered.load(shared[1], "k") == {"found": True, "value": "ours"}


async def test_what_a_tainted_thread_saves_taints_who_loads_it(remembered: Remembered, context: ToolContext) -> None:
    await remembered.save(msgspec.structs.replace(context, taints=("untrusted",)), "k", 1)

    result = await LoadMemory(remembered.memory, remembered.clock).run({"key": "k"}, context)

    assert result.taints == ("untrusted",)
