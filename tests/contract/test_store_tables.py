"""What every store must do with custom agents, memory and grants."""

import msgspec
import pytest

from retinue.ports.memory import Grant, Grants, Memory, MemoryItem
from retinue.ports.records import AgentRecord, AgentRecords
from retinue.schema.errors import AgentNotFound, Conflict
from retinue.schema.ids import DEFAULT_TENANT, Tenant, ThreadId

OTHER = Tenant("other")
THREAD = ThreadId("aaaaaaaa-0000-4000-8000-000000000000")


def record(id: str, slug: str, *, tenant: str = "default", created_at: float = 1.0) -> AgentRecord:
    fields = {"name": slug.title(), "tools": ["read", {"x": [1, None, True]}], "temperature": 0.5}
    return AgentRecord(id=id, slug=slug, fields=fields, created_at=created_at, tenant=tenant)


def item(key: str, *, namespace: str = "poet", value: bytes = b"1", expires: float | None = None) -> MemoryItem:
    return MemoryItem(namespace=namespace, key=key, value=value, expires=expires, updated_at=5.0, taints=("web",))


def grant(tool: str, *, thread: ThreadId | None = None, tenant: str = "default") -> Grant:
    return Grant(
        tenant=tenant,
        thread=thread,
        tool=tool,
        pattern="git *",
        exact="abc",
        definition_hash="def",
        created_at=3.0,
        question="q",
    )


@pytest.mark.spec("REG-09")
async def test_a_custom_agent_is_found_by_id_and_by_slug(records: AgentRecords) -> None:
    first, second = record("1", "poet"), record("2", "critic", created_at=2.0)
    await records.create(second)
    await records.create(first)

    assert await records.get(DEFAULT_TENANT, "1") == await records.get(DEFAULT_TENANT, "poet") == first
    assert await records.all(DEFAULT_TENANT) == [first, second]
    assert await records.get(DEFAULT_TENANT, "nobody") is None


@pytest.mark.spec("REG-09")
async def test_an_id_comes_before_a_slug_that_looks_like_it(records: AgentRecords) -> None:
    await records.create(record("a", "b"))
    await records.create(record("b", "c"))

    found = await records.get(DEFAULT_TENANT, "b")

    assert found is not None and found.id == "b"


@pytest.mark.spec("REG-09")
async def test_slugs_and_ids_of_a_tenant_collide(records: AgentRecords) -> None:
    await records.create(record("1", "poet"))
    await records.create(record("2", "critic"))

    with pytest.raises(Conflict, match="slug 'poet'"):
        await records.create(record("3", "poet"))
    with pytest.raises(Conflict, match="id '1'"):
        await records.create(record("1", "other"))
    with pytest.raises(Conflict, match="slug 'poet'"):
        await records.update(record("2", "poet"))
    await records.create(record("1", "poet", tenant=OTHER))
    assert [found.slug for found in await records.all(DEFAULT_TENANT)] == ["poet", "critic"]


@pytest.mark.spec("REG-09")
async def test_a_custom_agent_is_updated_and_deleted(records: AgentRecords) -> None:
    await records.create(record("1", "poet"))
    changed = msgspec.structs.replace(record("1", "bard"), fields={"name": "Bard"}, updated_at=9.0, override=True)

    await records.update(changed)

    assert await records.all(DEFAULT_TENANT) == [changed]
    assert not await records.delete(OTHER, "1")
    assert await records.delete(DEFAULT_TENANT, "1")
    assert not await records.delete(DEFAULT_TENANT, "1")
    with pytest.raises(AgentNotFound):
        await records.update(changed)


@pytest.mark.spec("MEM-01")
async def test_what_is_saved_is_loaded_until_it_expires(memory: Memory) -> None:
    await memory.save(DEFAULT_TENANT, item("forever"))
    await memory.save(DEFAULT_TENANT, item("brief", expires=10.0))

    assert await memory.load(DEFAULT_TENANT, "poet", "forever", now=1e12) == item("forever")
    assert await memory.load(DEFAULT_TENANT, "poet", "brief", now=9.9) == item("brief", expires=10.0)
    assert await memory.load(DEFAULT_TENANT, "poet", "brief", now=10.0) is None
    assert [found.key for found in await memory.list(DEFAULT_TENANT, "poet", now=9.9)] == ["brief", "forever"]
    assert [found.key for found in await memory.list(DEFAULT_TENANT, "poet", now=10.0)] == ["forever"]


@pytest.mark.spec("MEM-01")
async def test_memory_is_kept_apart_by_tenant_and_namespace(memory: Memory) -> None:
    await memory.save(DEFAULT_TENANT, item("k", value=b'"mine"'))
    await memory.save(DEFAULT_TENANT, item("k", namespace="shared", value=b'"ours"'))
    await memory.save(OTHER, item("k", value=b'"theirs"'))

    assert [found.value for found in await memory.list(DEFAULT_TENANT, None, now=0.0)] == [b'"mine"', b'"ours"']
    assert [found.value for found in await memory.list(OTHER, "poet", now=0.0)] == [b'"theirs"']
    assert await memory.delete(OTHER, "poet", "k")
    assert not await memory.delete(OTHER, "poet", "k")
    assert await memory.load(DEFAULT_TENANT, "poet", "k", now=0.0) is not None


@pytest.mark.spec("MEM-01")
async def test_saving_a_key_again_replaces_it(memory: Memory) -> None:
    await memory.save(DEFAULT_TENANT, item("k", expires=10.0))
    await memory.save(DEFAULT_TENANT, item("k", value=b"2"))

    assert await memory.load(DEFAULT_TENANT, "poet", "k", now=20.0) == item("k", value=b"2")


@pytest.mark.spec("PERM-05")
async def test_grants_are_of_a_thread_or_of_the_user(grants: Grants) -> None:
    always = await grants.add(grant("bash"))
    here = await grants.add(grant("edit", thread=THREAD))
    await grants.add(grant("web", tenant=OTHER))

    assert await grants.of(DEFAULT_TENANT, THREAD) == [
        msgspec.structs.replace(grant("bash"), number=always),
        msgspec.structs.replace(grant("edit", thread=THREAD), number=here),
    ]
    assert [found.tool for found in await grants.of(DEFAULT_TENANT, None)] == ["bash"]
    assert [found.tool for found in await grants.all(DEFAULT_TENANT)] == ["bash", "edit"]


@pytest.mark.spec("PERM-05")
async def test_a_revoked_grants_number_is_never_given_again(grants: Grants) -> None:
    number = await grants.add(grant("bash"))

    assert not await grants.revoke(OTHER, number)
    assert await grants.revoke(DEFAULT_TENANT, number)
    assert not await grants.revoke(DEFAULT_TENANT, number)
    assert await grants.all(DEFAULT_TENANT) == []
    assert await grants.add(grant("bash")) > number
