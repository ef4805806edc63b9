import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.app.catalog import open_catalog, read_catalog
from retinue.app.settings import Settings
from retinue.app.settings_file import load_settings
from retinue.app.trust import trust
from retinue.definition.code import define_agent
from retinue.registry.changes import Summary
from retinue.schema.errors import NotFound, Untrusted

AGENT = "---\ndescription: d\n---\nx\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "agents").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "agents").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def settings(home: Path, project: Path) -> Callable[[], Settings]:
    environ = {"RETINUE_HOME": str(home), "RETINUE_OPERATOR": str(home / "none")}
    return lambda: load_settings(project, environ)


@pytest.fixture
def repository(tmp_path: Path, home: Path) -> Callable[[str], None]:
    """Commit a new text of `a.md`; the repository is configured as a root one."""
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "-C", folder, "init", "-qb", "main"], check=True)
    (home / "retinue.toml").write_text(
        f"local_repositories = true\n[[repositories]]\nname = 'main'\nis_root = true\n"
        f"sync_interval = '1s'\ngit_url = '{folder}'\n"
    )

    def commit(text: str) -> None:
        (folder / "a.md").write_text(text)
        subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
        name = ("-c", "user.name=n", "-c", "user.email=n@example.com")
        subprocess.run(["git", "-C", folder, *name, "commit", "-qm", "c"], check=True)

    return commit


def test_a_catalog_is_read_without_an_event_loop_when_no_source_needs_one(
    settings: Callable[[], Settings], home: Path, project: Path
) -> None:
    (home / "agents" / "mine.md").write_text(AGENT)
    (project / "agents" / "theirs.md").write_text(AGENT)
    made = define_agent(name="made", description="d", prompt="p")

    catalog = read_catalog(settings(), code=[made])

    assert [catalog.resolve(name).origin for name in ("mine", "made", "coder")] == ["user", "code", "builtin"]
    with pytest.raises(Untrusted):
        catalog.resolve("theirs")


@pytest.mark.spec("REG-11", "REG-02")
async def test_a_reload_says_what_changed_and_notices_new_trust(
    settings: Callable[[], Settings], home: Path, project: Path
) -> None:
    holder = await open_catalog(settings())
    before = holder.current
    (project / "agents" / "x.md").write_text(AGENT)
    added = await holder.reload()
    found = holder.current.match("x").found
    trust(home, project / "agents", {"x": found.entry.hash})
    trusted = await holder.reload()

    assert added == Summary(new=("x",))
    assert trusted == Summary(changed=("x",))
    assert holder.current.resolve("x").origin == "project:agents"
    assert "x" not in list(before.addresses)
    assert await holder.reload() == Summary()
    await holder.close()


@pytest.mark.spec("REG-11")
async def test_a_changed_file_is_in_the_catalog_by_itself(settings: Callable[[], Settings], home: Path) -> None:
    holder = await open_catalog(settings())
    told: asyncio.Queue[Summary] = asyncio.Queue()
    watching = asyncio.create_task(holder.watch(told.put_nowait))
    try:
        async with asyncio.timeout(10):
            summary = asyncio.create_task(told.get())
            while not summary.done():  # the watch may not stand yet when the first file is written
                (home / "agents" / "new.md").write_text(AGENT)
                await asyncio.wait([summary], timeout=0.3)
        assert summary.result() == Summary(new=("new",))
        assert holder.current.resolve("new").origin == "user"
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await holder.close()


@pytest.mark.spec("REG-06", "REG-11")
async def test_a_new_commit_is_in_the_catalog_on_its_interval(
    settings: Callable[[], Settings], repository: Callable[[str], None]
) -> None:
    repository(AGENT)
    holder = await open_catalog(settings())
    told: asyncio.Queue[Summary] = asyncio.Queue()
    watching = asyncio.create_task(holder.watch(told.put_nowait))
    try:
        async with asyncio.timeout(15):
            first = await told.get()
            repository(AGENT + "more\n")
            second = await told.get()
        assert (first, second) == (Summary(new=("a",)), Summary(changed=("a",)))
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await holder.close()


@pytest.mark.spec("REG-06")
async def test_a_repository_is_synced_on_demand_and_an_unknown_one_is_refused(
    settings: Callable[[], Settings], repository: Callable[[str], None]
) -> None:
    repository(AGENT)
    holder = await open_catalog(settings())

    [synced] = await holder.sync("main")

    assert (synced.repository, synced.changed, synced.error) == ("main", True, None)
    assert holder.current.resolve("a").commit == synced.commit
    with pytest.raises(NotFound, match="there are: main"):
        await holder.sync("other")
    await holder.close()


@pytest.mark.spec("REG-01", "REG-10", "REG-13")
def test_configured_and_remote_agents_take_their_places(settings: Callable[[], Settings], home: Path) -> None:
    (home / "retinue.json").write_text(
        '{"Agents": {"Custom": [{"Name": "Custom", "Slug": "coder", "SystemPrompt": "p"}]},'
        '"remoteAgents": [{"name": "legal", "agentCardUrl": "https://l.example/card"},'
        '{"name": "coder", "agentCardUrl": "https://c.example/card"}]}'
    )

    catalog = read_catalog(settings())

    coder, legal = catalog.resolve("coder"), catalog.resolve("legal")
    assert (coder.source, [f.snapshot.kind for f in coder.shadows]) == ("config", ["builtin"])
    assert (legal.source, legal.priority) == ("a2a", "external")


@pytest.mark.spec("REG-01")
def test_a_project_cant_put_out_a_repository_of_the_user_by_taking_its_name(
    settings: Callable[[], Settings], repository: Callable[[str], None], project: Path
) -> None:
    repository(AGENT)

    async def sync() -> None:
        holder = await open_catalog(settings())
        await holder.sync()
        await holder.close()

    asyncio.run(sync())
    (project / "retinue.toml").write_text("[[repositories]]\nname = 'main'\ngit_url = 'https://evil.example/x'\n")

    catalog = read_catalog(settings())

    assert catalog.resolve("a").repository == "main"
    assert [s.error is None for s in catalog.snapshots if s.kind == "git"] == [True, False]
