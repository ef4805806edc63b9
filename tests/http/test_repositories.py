"""Repositories over HTTP: their state, syncs on demand, and webhooks of every forge."""

import asyncio
import hashlib
import hmac
import os
import subprocess
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from retinue.app.settings import ServeSettings, SettingsFile
from retinue.models.script import Say
from support.serving import Answer, Api, serving

SECRET = "correct horse battery"


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._git("init", "-qb", "main")

    def commit(self, **agents: str) -> str:
        for name, about in agents.items():
            (self.folder / f"{name}.md").write_text(f"---\ndescription: {about}\n---\nYou are {name}.\n")
        self._git("add", "-A")
        self._git("-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-qm", "change")
        return self._git("rev-parse", "HEAD")

    def _git(self, *args: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *args], check=True, capture_output=True, text=True)
        return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "team")
    made.commit(first="The first.")
    return made


@pytest.fixture
async def api(tmp_path: Path, repository: Repository) -> AsyncGenerator[Api]:
    fields = {
        "name": "team",
        "gitUrl": str(repository.folder),
        "syncInterval": "1h",
        "webhookSecret": "env(HOOK)",
        "authType": "none",
    }
    open_one = {**fields, "name": "open", "webhookSecret": None, "isActive": False}
    settings = SettingsFile(
        repositories=(fields, {k: v for k, v in open_one.items() if v is not None}),
        local_repositories=True,
        serve=ServeSettings(rate=1e4, burst=10_000),
    )
    environ = {"HOOK": SECRET, "PATH": os.environ["PATH"]}
    async with serving(tmp_path, lambda _: Say(text="done"), settings=settings, environ=environ) as api:
        client = await api.client("repos:write")
        async with asyncio.timeout(20):
            state = ""
            while state != "ready":
                state = (await client.get("/v1/repositories/team")).json["state"]
        yield api


async def deliver(
    api: Api, id: str, commit: str, *, forge: str = "github", ref: str = "refs/heads/main", repository: str = "team"
) -> Answer:
    body = msgspec.json.encode({"ref": ref, "after": commit})
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "github": {
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": id,
            "X-Hub-Signature-256": f"sha256={signature}",
        },
        "gitlab": {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": SECRET, "Idempotency-Key": id},
        "gitea": {"X-Gitea-Event": "push", "X-Gitea-Delivery": id, "X-Gitea-Signature": signature},
        "wrong": {"X-GitHub-Event": "push", "X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=00"},
    }[forge]
    headers["Content-Type"] = "application/json"
    return await api.with_token("").ask("POST", f"/v1/webhooks/{repository}", data=body, headers=headers)


async def appears(api: Api, agent: str) -> float:
    """Seconds until an agent is in the catalog."""
    client, began = await api.client("agents:read"), time.monotonic()
    async with asyncio.timeout(10):
        status = 0
        while status != 200:
            status = (await client.get(f"/v1/agents/{agent}")).status
    return time.monotonic() - began


@pytest.mark.spec("REG-06", "REG-11")
@pytest.mark.parametrize("forge", ["github", "gitlab", "gitea"])
async def test_a_push_is_live_in_the_catalog_within_a_second(api: Api, repository: Repository, forge: str) -> None:
    assert await appears(api, "team/first") < 10
    commit = repository.commit(second="The second.")

    accepted = await deliver(api, "1", commit, forge=forge)
    took = await appears(api, "team/second")

    assert (accepted.status, accepted.json["sync"]) == (202, True)
    assert took < (1.0 if os.environ.get("CI") else 5.0)  # other work shares a developer's machine
    shown = (await (await api.client("repos:read")).get("/v1/repositories/team")).json
    assert (shown["commit"], shown["agents"], shown["state"]) == (commit, 2, "ready")
    assert SECRET not in repr(shown)


@pytest.mark.spec("REG-06")
async def test_a_delivery_that_comes_again_does_nothing(api: Api, repository: Repository) -> None:
    commit = repository.commit(second="The second.")
    first = await deliver(api, "1", commit)
    await appears(api, "team/second")
    syncs = api.served.syncing.count

    again = await deliver(api, "1", commit)

    assert (first.json["duplicate"], again.status) == (False, 202)
    assert (again.json["duplicate"], again.json["sync"], api.served.syncing.count) == (True, False, syncs)


@pytest.mark.spec("REG-06")
async def test_a_flood_of_deliveries_is_one_sync_and_one_more(api: Api, repository: Repository) -> None:
    commit = repository.commit(second="The second.")

    answers = await asyncio.gather(*(deliver(api, str(i), commit) for i in range(40)))
    await appears(api, "team/second")

    assert {answer.status for answer in answers} == {202}
    assert all(answer.json["sync"] for answer in answers)
    assert api.served.syncing.count <= 4


@pytest.mark.spec("REG-06")
async def test_what_is_not_a_push_of_the_branch_is_taken_and_nothing_follows(api: Api, repository: Repository) -> None:
    commit = repository.commit(second="The second.")

    other = await deliver(api, "1", commit, ref="refs/heads/other")
    deleted = await deliver(api, "2", "0" * 40)

    assert (other.json["sync"], deleted.json["sync"], api.served.syncing.count) == (False, False, 0)


@pytest.mark.spec("REG-06")
async def test_strangers_can_not_tell_a_bad_signature_from_an_unknown_repository(api: Api) -> None:
    forged = await deliver(api, "1", "a" * 40, forge="wrong")
    unknown = await deliver(api, "2", "a" * 40, repository="nobody")
    without_secret = await deliver(api, "3", "a" * 40, repository="open")

    assert (forged.status, forged.json["code"]) == (403, "denied")
    assert forged.body == unknown.body == without_secret.body
    assert api.served.syncing.count == 0


@pytest.mark.spec("REG-06")
async def test_a_repository_is_synced_on_demand_and_a_failure_keeps_the_last_good_state(
    api: Api, repository: Repository
) -> None:
    client = await api.client("repos:write")
    commit = repository.commit(second="The second.")

    synced = (await client.post("/v1/syncs/team")).json
    assert (synced["commit"], synced["changed"], synced["error"]) == (commit, True, None)
    repository.folder.rename(repository.folder.with_name("moved"))
    failed = (await client.post("/v1/syncs/team")).json

    assert failed["error"]
    shown = (await client.get("/v1/repositories/team")).json
    assert (shown["state"], shown["commit"], shown["agents"]) == ("stale", commit, 2)
    assert (await client.post("/v1/syncs/nobody")).status == 404
    listed = (await client.get("/v1/repositories")).json["items"]
    assert [(r["name"], r["state"]) for r in listed] == [("team", "stale"), ("open", "inactive")]
