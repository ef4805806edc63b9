"""Repositories as a source: what is parsed, what is kept, what is refused."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from retinue.ports.source import Snapshot, Source
from retinue.registry.catalog import Catalog
from retinue.schema.errors import DefinitionError, GitError, UsageError
from retinue.schema.ids import AgentId
from retinue.sources.git import GitSource
from retinue.sources.git_program import Limits
from retinue.sources.mirror import Mirror
from retinue.sources.repository import RepositoryConfig

if TYPE_CHECKING:
    from tests.sources.conftest import HttpServer, Repo


def agent(name: str, body: str = "You help.") -> str:
    return f"---\nname: {name}\ndescription: Helps with {name}.\n---\n{body}\n"


class Counting(Mirror):
    """A mirror that remembers which blobs were read."""

    def __init__(self, config: RepositoryConfig, folder: Path) -> None:
        limits = Limits(output=2 << 20)
        super().__init__(config, folder, {"PATH": os.environ["PATH"]}, allow_local=True, limits=limits)
        self.read: list[str] = []

    def blobs(self, shas: Iterable[str]) -> Iterator[bytes]:
        wanted = list(shas)
        self.read += wanted
        return super().blobs(wanted)


Open = Callable[..., "Opened"]


class Opened:
    """A repository, and a source over it that can be opened again as a new process would."""

    def __init__(self, repo: Repo, config: RepositoryConfig, folder: Path) -> None:
        self.repo = repo
        self.config = config
        self.folder = folder
        self.mirror = Counting(config, folder)
        self.source = GitSource(config, self.mirror)
        self.now = 0.0

    async def synced(self) -> Snapshot:
        self.now += 1
        await self.source.sync(self.now)
        return await self.source.load(None)

    def again(self, folder: Path | None = None) -> Opened:
        return Opened(self.repo, self.config, folder or self.folder)

    def take_read(self) -> int:
        count = len(self.mirror.read)
        self.mirror.read.clear()
        return count


@pytest.fixture
def opened(local_repo: Callable[[str], Repo], tmp_path: Path) -> Open:
    def make(*, is_root: bool = True, is_active: bool = True) -> Opened:
        repo = local_repo("agents")
        config = RepositoryConfig(name="main-agents", git_url=str(repo.path), is_root=is_root, is_active=is_active)
        return Opened(repo, config, tmp_path / "mirror")

    return make


def codes(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(p.code, p.file) for p in snapshot.problems]


@pytest.mark.spec("REG-03", "REG-07")
async def test_a_snapshot_says_where_each_agent_came_from(opened: Open) -> None:
    one = opened()
    commit = one.repo.commit(
        {
            "sales/assistant/prompt.md": agent("Assistant"),
            "sales/helper.md": agent("Helper"),
            "README.md": "# Agents\n",
            "_draft.md": agent("Draft"),
            "prompts/side.md": "A side.",
            ".github/bug.md": agent("Bug"),
            "node_modules/x/y.md": agent("Y"),
        }
    )
    source: Source = one.source
    snapshot = await one.synced()

    assert sorted(snapshot.entries) == ["sales/assistant", "sales/helper"]
    entry = snapshot.entries[AgentId("sales/assistant")]
    assert entry.definition is not None and entry.definition.name == "Assistant"
    assert (entry.location, entry.hash, entry.trusted) == (
        "main-agents/sales/assistant/prompt.md",
        entry.definition.hash,
        True,
    )
    assert (source.name, snapshot.name, snapshot.kind) == ("git:main-agents", "git:main-agents", "git")
    assert (snapshot.repository, snapshot.commit) == ("main-agents", commit)
    assert (snapshot.namespace, snapshot.priority) == (None, "root")
    assert (snapshot.error, snapshot.stale) == (None, False)


@pytest.mark.spec("REG-04")
async def test_a_repository_that_is_not_root_has_its_name_as_namespace(opened: Open) -> None:
    one = opened(is_root=False)
    one.repo.commit({"a.md": agent("A")})
    snapshot = await one.synced()
    assert (snapshot.namespace, snapshot.priority) == ("main-agents", "namespaced")


@pytest.mark.spec("REG-06", "REG-11")
async def test_only_changed_blobs_are_parsed(opened: Open) -> None:
    one = opened()
    one.repo.commit({f"a{n}.md": agent(f"A{n}") for n in range(20)})
    first = await one.synced()
    assert one.take_read() == 20

    one.repo.commit({"a3.md": agent("Changed"), "new.md": agent("New"), "a4.md": None, "notes.txt": "x"})
    second = await one.synced()

    assert one.take_read() == 2
    assert second.entries.keys() - first.entries.keys() == {"new"}
    assert first.entries.keys() - second.entries.keys() == {"a4"}
    assert second.entries[AgentId("a1")] is first.entries[AgentId("a1")]
    changed = second.entries[AgentId("a3")].definition
    assert changed is not None and changed.name == "Changed"
    kept = first.entries[AgentId("a3")].definition
    assert kept is not None and kept.name == "A3"


async def test_nothing_new_is_the_same_snapshot(opened: Open) -> None:
    one = opened()
    one.repo.commit({"a.md": agent("A")})
    assert await one.synced() is await one.synced()


@pytest.mark.spec("REG-06")
async def test_a_new_process_reads_no_blob_again(opened: Open) -> None:
    one = opened()
    one.repo.commit({f"a{n}.md": agent(f"A{n}") for n in range(5)} | {"README.md": "# no agent"})
    await one.synced()
    one.repo.commit({"a1.md": agent("Changed")})
    snapshot = await one.synced()

    later = one.again()
    assert await later.source.load(None) == snapshot
    assert later.take_read() == 0

    one.repo.commit({"a2.md": None, "a9.md": agent("Nine")})
    assert sorted((await later.synced()).entries) == ["a0", "a1", "a3", "a4", "a9"]
    assert later.take_read() == 1
    last = one.again()
    assert sorted((await last.source.load(None)).entries) == ["a0", "a1", "a3", "a4", "a9"]
    assert last.take_read() == 0


@pytest.mark.parametrize("damage", [b"", b"\xff" * 100, None, b"\x10\0\0\0\0\0\0\0short"])
async def test_a_cache_that_cant_be_read_is_as_good_as_none(opened: Open, damage: bytes | None) -> None:
    one = opened()
    one.repo.commit({"a.md": agent("A"), "b.md": agent("B")})
    snapshot = await one.synced()
    cache = one.folder / "cache"
    if damage is None:
        cache.write_bytes(cache.read_bytes()[:-7])
    else:
        cache.write_bytes(damage)

    later = one.again()
    assert await later.source.load(None) == snapshot
    assert later.take_read() == 2
    assert await one.again().source.load(None) == snapshot


async def test_many_small_changes_do_not_grow_the_cache_for_ever(opened: Open) -> None:
    one = opened()
    one.repo.commit({f"a{n}.md": agent(f"A{n}", "x" * 500) for n in range(3)})
    await one.synced()
    whole = (one.folder / "cache").stat().st_size
    for n in range(9):
        one.repo.commit({"a1.md": agent("A1", "y" * (500 + n))})
        await one.synced()
    assert (one.folder / "cache").stat().st_size < 3 * whole


async def test_two_processes_that_take_turns_agree(opened: Open) -> None:
    one = opened()
    one.repo.commit({"a.md": agent("A"), "b.md": agent("B")})
    await one.synced()
    other = one.again()
    await other.source.load(None)

    for index, turn in enumerate([one, other, other, one, one]):
        one.repo.commit({"a.md": agent(f"A{index}"), f"n{index}.md": agent("N")})
        snapshot = await turn.synced()
        assert await one.again().source.load(None) == snapshot


@pytest.mark.spec("REG-06")
async def test_changes_step_by_step_give_what_a_fresh_look_gives(opened: Open, tmp_path: Path) -> None:
    one = opened()
    dice = random.Random(7)
    paths = ["a.md", "a/prompt.md", "a/agent.md", "b/c.md", "prompts/p.md", "x/prompts/p.md", "x/d.md", "n.txt", "b.md"]
    one.repo.commit({"a.md": agent("first")})
    for step in range(8):
        chosen = dice.sample(paths, dice.randint(1, 4))
        one.repo.commit({path: dice.choice([agent(f"s{step}"), _dual("p"), "plain text", None]) for path in chosen})
        fresh = one.again(tmp_path / f"fresh{step}")
        assert await one.synced() == await fresh.synced()


def _dual(prompt: str) -> str:
    sides = f"type: dual_ai\nmax_session_turns: 4\nside_a:\n  prompt: {prompt}\nside_b:\n  prompt: {prompt}\n"
    return f"---\nname: Pair\ndescription: Two sides.\n{sides}---\n"


@pytest.mark.spec("DEF-13", "REG-06")
async def test_an_agent_is_parsed_again_when_a_prompt_of_its_sides_changes(opened: Open) -> None:
    one = opened()
    one.repo.commit({"pair.md": _dual("tester"), "prompts/tester.md": "Test it.", "other.md": agent("Other")})
    first = (await one.synced()).entries[AgentId("pair")]
    assert first.definition is not None
    assert first.definition.prompts["tester"].text.strip() == "Test it."
    one.take_read()

    one.repo.commit({"prompts/tester.md": "Break it."})
    second = (await one.synced()).entries[AgentId("pair")]
    assert second.definition is not None
    assert second.definition.prompts["tester"].text.strip() == "Break it."
    assert second.hash != first.hash
    assert one.take_read() == 3  # the agent, its prompt, and the agent again with it

    one.repo.commit({"prompts/tester.md": None})
    third = (await one.synced()).entries[AgentId("pair")]
    assert third.definition is None and third.problems

    one.repo.commit({"_tester.md": "Beside it."})
    fourth = (await one.synced()).entries[AgentId("pair")]
    assert fourth.definition is not None
    assert fourth.definition.prompts["tester"].text.strip() == "Beside it."


@pytest.mark.spec("DEF-05")
async def test_a_file_without_frontmatter_is_no_agent_and_an_error_that_says_so_by_name(opened: Open) -> None:
    one = opened()
    one.repo.commit({"docs/notes.md": "# Notes", "a.md": agent("a")})
    snapshot = await one.synced()

    assert list(snapshot.entries) == ["a"]
    with pytest.raises(DefinitionError, match="'docs/notes' is not an agent: has no frontmatter"):
        Catalog.build([snapshot]).resolve("docs/notes")


@pytest.mark.spec("DEF-04")
async def test_of_two_files_with_one_id_the_first_wins_and_the_others_are_told(opened: Open) -> None:
    one = opened()
    one.repo.commit({"a/b.md": agent("third"), "a/b/agent.md": agent("second"), "a/b/prompt.md": agent("first")})
    snapshot = await one.synced()

    winner = snapshot.entries[AgentId("a/b")].definition
    assert winner is not None and winner.name == "first"
    assert codes(snapshot) == [
        ("duplicate-id", "main-agents/a/b.md"),
        ("duplicate-id", "main-agents/a/b/agent.md"),
    ]
    one.repo.commit({"a/b/prompt.md": None})
    second = (await one.synced()).entries[AgentId("a/b")].definition
    assert second is not None and second.name == "second"


@pytest.mark.spec("REG-06")
async def test_thousands_of_unrelated_files_are_not_read(opened: Open) -> None:
    one = opened()
    one.repo.commit({f"src/d{n % 90}/f{n}.py": f"x = {n}" for n in range(9000)} | {"a.md": agent("A")})
    assert sorted((await one.synced()).entries) == ["a"]
    assert one.take_read() == 1


@pytest.mark.spec("REG-05")
async def test_hostile_names_links_and_submodules_are_skipped_and_told(opened: Open) -> None:
    one = opened()
    repo = one.repo
    good, link = repo.blob(agent("Good").encode()), repo.blob(b"/etc/passwd")
    inner = repo.git("mktree", stdin=f"100644 blob {good}\tin.md\n".encode())
    repo.raw_commit(
        sorted(
            [
                ("40000", b"..", inner),
                ("100644", b"bell\x07.md", good),
                ("160000", b"module", "1" * 40),
                ("120000", b"etc.md", link),
                ("120000", b"shared", link),
                ("100644", b"latin\xe9.md", good),
                ("100644", "turn\u202edm.md".encode(), good),
                ("100644", b"good.md", good),
                ("100755", b"run.md", good),
            ],
            key=lambda entry: entry[1],
        )
    )
    snapshot = await one.synced()

    assert sorted(snapshot.entries) == ["good", "run"]
    assert sorted(codes(snapshot)) == [
        ("bad-name", "main-agents/../in.md"),
        ("bad-name", "main-agents/bell\\x07.md"),
        ("bad-name", "main-agents/latin\\udce9.md"),
        ("bad-name", "main-agents/turn\\u202edm.md"),
        ("submodule", "main-agents/module"),
        ("symlink", "main-agents/etc.md"),
        ("symlink", "main-agents/shared"),
    ]
    assert await one.again().source.load(None) == snapshot


@pytest.mark.spec("REG-05")
async def test_a_file_that_turns_into_a_link_is_no_agent_any_more(opened: Open) -> None:
    """Both have the same blob, so the mode has to tell."""
    one = opened()
    sha = one.repo.blob(agent("A").encode())
    one.repo.raw_commit([("100644", b"a.md", sha)])
    assert sorted((await one.synced()).entries) == ["a"]
    one.repo.raw_commit([("120000", b"a.md", sha)])
    assert (await one.synced()).entries == {}
    fresh = one.again()
    assert (await fresh.source.load(None)).entries == {}


@pytest.mark.spec("REG-05")
async def test_a_huge_file_is_an_entry_with_a_problem_and_is_never_read(opened: Open, tmp_path: Path) -> None:
    one = opened()
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(100_000_000)
    sha = one.repo.git("hash-object", "-w", str(huge))
    one.repo.raw_commit([("100644", b"huge.md", sha), ("100644", b"ok.md", one.repo.blob(agent("Ok").encode()))])
    snapshot = await one.synced()

    entry = snapshot.entries[AgentId("huge")]
    assert entry.definition is None
    assert [(p.code, p.severity) for p in entry.problems] == [("too-large", "error")]
    assert "100000000 bytes; at most 1048576" in entry.problems[0].message
    assert snapshot.entries[AgentId("ok")].definition is not None
    assert sha not in one.mirror.read


@pytest.mark.spec("DEF-08")
async def test_a_bad_file_does_not_stop_its_neighbours(opened: Open) -> None:
    one = opened()
    endless = f"---\nname: e\ndescription: d\nmax_steps: {10**30}\n---\nx\n"
    one.repo.commit(
        {
            "bad.md": "---\ntools: true\n---\nx\n",
            "endless.md": endless,
            "good.md": agent("Good"),
            "binary.md": b"---\n\xff\xfe\n---\n",
        }
    )
    entries = (await one.synced()).entries
    assert entries[AgentId("bad")].definition is None
    assert entries[AgentId("endless")].definition is None
    assert entries[AgentId("good")].definition is not None
    assert entries[AgentId("binary")].definition is None


@pytest.mark.spec("REG-06", "REG-01")
async def test_a_failed_sync_keeps_the_last_good_snapshot_and_says_so(opened: Open) -> None:
    one = opened()
    unsynced = await one.source.load(None)
    assert unsynced.entries == {}
    assert unsynced.error is not None and "source unavailable: never synced" in unsynced.error

    commit = one.repo.commit({"a.md": agent("A")})
    good = await one.synced()
    one.repo.path.rename(one.repo.path.with_suffix(".away"))
    with pytest.raises(GitError):
        await one.source.sync(5.0)

    for source in (one.source, one.again().source):
        kept = await source.load(good)
        assert (kept.stale, kept.error, kept.commit, kept.entries) == (True, None, commit, good.entries)
        assert [p.code for p in kept.problems] == ["stale"]
        assert "no repository at this address" in kept.problems[0].message

    one.repo.path.with_suffix(".away").rename(one.repo.path)
    assert await one.synced() == good


async def test_a_source_that_never_had_a_good_sync_says_why(opened: Open) -> None:
    one = opened()
    with pytest.raises(GitError):
        await one.source.sync(1.0)
    snapshot = await one.source.load(None)
    assert snapshot.error is not None and "no branch 'main'; it is empty" in snapshot.error


@pytest.mark.spec("REG-03")
async def test_an_inactive_repository_is_neither_synced_nor_resolved(opened: Open) -> None:
    one = opened()
    one.repo.commit({"a.md": agent("A")})
    await one.synced()
    off = opened_inactive(one)
    assert not off.sync_due(1e9)
    with pytest.raises(UsageError, match="not active"):
        await off.sync(2.0)
    snapshot = await off.load(None)
    assert (snapshot.entries, snapshot.error) == ({}, None)


def opened_inactive(one: Opened) -> GitSource:
    config = RepositoryConfig(name=one.config.name, git_url=one.config.git_url, is_active=False)
    return GitSource(config, Counting(config, one.folder))


@pytest.mark.spec("REG-06")
async def test_a_sync_is_due_after_the_interval_also_when_it_failed(opened: Open) -> None:
    one = opened()
    assert one.source.sync_due(1000.0)
    with pytest.raises(GitError):
        await one.source.sync(1000.0)
    assert [one.source.sync_due(now) for now in (1000.0, 1299.0, 1300.0, 900.0)] == [False, False, True, True]
    one.repo.commit({"a.md": agent("A")})
    await one.source.sync(2000.0)
    assert not one.again().source.sync_due(2299.0)


async def test_a_damaged_mirror_keeps_what_is_known_and_heals(opened: Open) -> None:
    one = opened()
    one.repo.commit({"a.md": agent("A")})
    good = await one.synced()
    commit = one.repo.commit({"b.md": agent("B")})
    await one.source.sync(2.0)
    for pack in one.folder.glob("repository.git/objects/pack/*"):
        pack.unlink()

    kept = await one.source.load(good)
    assert (kept.stale, kept.commit, kept.entries) == (True, good.commit, good.entries)
    assert one.source.sync_due(2.0)
    await one.source.sync(3.0)
    healed = await one.source.load(kept)
    assert (healed.stale, healed.commit, sorted(healed.entries)) == (False, commit, ["a", "b"])


@pytest.mark.spec("REG-05")
async def test_a_tree_of_endless_names_makes_the_source_unavailable_and_nothing_else(opened: Open) -> None:
    """Eight trees of ten times the one below: eight objects, a hundred million files."""
    one = opened()
    sha, kind = one.repo.blob(agent("A").encode()), "100644 blob"
    for _ in range(8):
        lines = "".join(f"{kind} {sha}\tn{n}.md\n" for n in range(10))
        sha, kind = one.repo.git("mktree", stdin=lines.encode()), "040000 tree"
    one.repo.git("update-ref", "refs/heads/main", one.repo.git("commit-tree", "-m", "bomb", sha))
    snapshot = await one.synced()

    assert snapshot.error is not None and "printed more than" in snapshot.error
    assert not one.mirror.state().broken


async def test_progress_of_fetching_and_parsing_is_told(http: HttpServer, tmp_path: Path) -> None:
    repo = http.repo("source-progress")
    repo.commit({f"a{n}.md": agent(f"A{n}") for n in range(300)})
    config = RepositoryConfig(name="agents", git_url=http.address(repo, area="public"))
    heard: list[tuple[str, float]] = []
    source = GitSource(
        config, Counting(config, tmp_path / "m"), progress=lambda stage, part: heard.append((stage, part))
    )
    await source.sync(1.0)
    await source.load(None)
    assert "parsing agents" in {stage for stage, _ in heard}
    assert len({stage for stage, _ in heard}) > 1
