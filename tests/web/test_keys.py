"""API keys: what they may do, and that a token is nowhere but with its holder."""

from pathlib import Path

import pytest

from retinue.schema.errors import Denied, NotFound, UsageError
from retinue.storage.sqlite import open_database
from retinue.web.keys import Keyring
from retinue.web.scopes import SCOPES, checked, covers
from support.serving import Api


class Clock:
    time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds

    def new_id(self) -> str:
        return "id"

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("granted", "wanted", "allowed"),
    [
        ("threads:read", "threads:read", True),
        ("threads:write", "threads:read", True),
        ("threads:read", "threads:write", False),
        ("memory:*", "memory:write", True),
        ("memory:*", "threads:read", False),
        ("admin", "keys:write", True),
        ("agents:read", "admin", False),
    ],
)
def test_a_scope_covers_what_it_names_and_writing_covers_reading(granted: str, wanted: str, allowed: bool) -> None:
    assert covers([granted], wanted) is allowed


def test_unknown_scopes_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="threads:all is no scope"):
        checked(["threads:read", "threads:all"])
    assert checked(["memory:*", "memory:*", *SCOPES]) == ("memory:*", *SCOPES)


@pytest.mark.spec("API-03")
async def test_a_key_is_known_by_its_token_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    clock, database = Clock(), await open_database(tmp_path / "retinue.db")
    ring = Keyring(database.keys, clock)

    made = await ring.create("ci", ["threads:write"], tenant="acme", expires=2000.0)
    principal = await ring.verify(made.token)

    assert principal is not None
    assert (principal.name, principal.tenant, principal.scopes) == ("ci", "acme", ("threads:write",))
    assert made.token not in repr(await ring.all(None))
    for wrong in ("", "rtn_", made.token[:-1], made.token[:-1] + "x", made.token.replace(made.key.id, "0" * 12)):
        assert await ring.verify(wrong) is None
    clock.time = 2000.0
    assert await ring.verify(made.token) is None
    clock.time = 1500.0
    with pytest.raises(NotFound):
        await ring.revoke(principal.tenant, "000000000000")
    await ring.revoke(None, made.key.id)
    assert await ring.verify(made.token) is None
    assert await ring.first() is not None
    assert await ring.first() is None
    await database.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert made.token.encode() not in stored and made.token.split("_", 2)[2].encode() not in stored


async def test_no_key_gives_what_it_has_not(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "retinue.db")
    ring = Keyring(database.keys, Clock())
    operator = await ring.verify((await ring.create("operator", ["admin"])).token)
    tenant = await ring.verify((await ring.create("boss", ["keys:write", "memory:*"], tenant="acme")).token)
    assert operator is not None and tenant is not None

    await ring.create("other", ["admin"], tenant="acme", by=operator)
    await ring.create("own", ["memory:read", "memory:*", "keys:read"], tenant="acme", by=tenant)
    for scope, whose in (("threads:read", "acme"), ("admin", "acme"), ("memory:read", "default")):
        with pytest.raises(Denied):
            await ring.create("more", [scope], tenant=whose, by=tenant)
    for name, whose in ((" ", "acme"), ("x", "Not A Tenant")):
        with pytest.raises(UsageError):
            await ring.create(name, ["admin"], tenant=whose)
    await database.close()


@pytest.mark.spec("API-03")
async def test_keys_are_made_listed_and_revoked_over_http(api: Api) -> None:
    boss = await api.client("keys:write", "threads:read", tenant="acme")

    made = await boss.post("/v1/keys", {"name": "reader", "scopes": ["threads:read"]})
    assert made.status == 201
    reader = api.with_token(made.json["token"])
    assert (await reader.get("/v1/threads")).status == 200
    denied = await reader.post("/v1/threads", {"message": "x"})
    assert (denied.status, denied.json["code"]) == (403, "scope")
    assert "threads:write" in denied.json["detail"]
    listed = (await boss.get("/v1/keys")).json["items"]
    assert [key["name"] for key in listed] == ["test", "reader"]
    assert all("digest" not in key and "token" not in key for key in listed)
    beyond = await boss.post("/v1/keys", {"name": "x", "scopes": ["admin"]})
    assert (beyond.status, beyond.json["code"]) == (403, "denied")
    assert (await boss.ask("DELETE", f"/v1/keys/{made.json['key']['id']}")).status == 204
    assert (await reader.get("/v1/threads")).status == 401
    assert (await boss.ask("DELETE", f"/v1/keys/{made.json['key']['id']}")).status == 404
