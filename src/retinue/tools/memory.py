"""save_memory and load_memory: what an agent remembers across runs.

The namespace is the agent's own unless its definition shares one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from retinue.ports.clock import Clock
from retinue.ports.memory import Memory, MemoryItem
from retinue.ports.tool import Result, ToolContext
from retinue.schema.ids import Tenant
from retinue.tools.attempt import Failed, declare, taken

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=512, description="The name of the data.")]
_MOST = 1_000_000


class Saved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Key
    value: Annotated[object, msgspec.Meta(description="Any JSON value.")]
    expiresAt: Annotated[str | None, msgspec.Meta(description="A time, as 2030-01-31T12:00:00Z.")] = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Key


class _MemoryTool:
    def __init__(self, memory: Memory, clock: Clock) -> None:
        self._memory = memory
        self._clock = clock

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("key", ""))


class SaveMemory(_MemoryTool):
    spec = declare("save_memory", "Saves data for later runs, under a key.", Saved, "idempotent")

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        now = self._clock.now()
        try:
            wanted = taken(Saved, arguments)
            expires = None if wanted.expiresAt is None else _moment(wanted.expiresAt)
            if expires is not None and expires <= now:
                raise Failed(f"Nothing was saved: expiresAt is {wanted.expiresAt}, which is past.")
            value = msgspec.json.encode(wanted.value)
            if len(value) > _MOST:
                raise Failed(f"Nothing was saved: the value is {len(value):,} bytes; at most {_MOST:,} are kept.")
        except Failed as failed:
            return failed.result
        item = MemoryItem(
            namespace=_namespace(context),
            key=wanted.key,
            value=value,
            expires=expires,
            updated_at=now,
            taints=context.taints,
        )
        await self._memory.save(Tenant(context.tenant), item)
        return Result(text=msgspec.json.encode({"saved": True, "key": wanted.key}).decode())


class LoadMemory(_MemoryTool):
    spec = declare("load_memory", "Loads data that was saved under a key.", Wanted, "read")

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        try:
            key = taken(Wanted, arguments).key
        except Failed as failed:
            return failed.result
        item = await self._memory.load(Tenant(context.tenant), _namespace(context), key, now=self._clock.now())
        if item is None:
            return Result(text='{"found":false}')
        answer = {"found": True, "value": msgspec.Raw(item.value)}
        return Result(text=msgspec.json.encode(answer).decode(), taints=item.taints)


def _namespace(context: ToolContext) -> str:
    return context.agent.memory_namespace or context.agent.id


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Failed(f"Nothing was saved: {text!r} is no time; write it as 2030-01-31T12:00:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
