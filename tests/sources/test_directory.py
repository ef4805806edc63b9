import os
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.ports.source import Snapshot
from retinue.schema.ids import AgentId
from retinue.sources.directory import DirectorySource, prompt_paths

Write = Callable[..., Path]
AGENT = "---\ndescription: d\n---\nYou help.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    return tmp_path / "agents"


@pytest.fixture
def write(folder: Path) -> Write:
    def write(path: str, text: str = AGENT) -> Path:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


async def _load(folder: Path) -> Snapshot:
    return await DirectorySource("user", folder, kind="user").load(None)


@pytest.mark.spec("DEF-04")
async def test_the_path_is_the_id(folder: Path, write: Write) -> None:
    for path in ("a/b/prompt.md", "c/agent.md", "d.md", "e.agent.md", "f/g.chatmode.md"):
        write(path)

    snapshot = await _load(folder)

    assert sorted(snapshot.entries) == ["a/b", "c", "d", "e", "f/g"]
    assert snapshot.problems == ()


@pytest.mark.spec("DEF-04")
async def test_of_two_files_with_one_id_the_first_in_s0s_order_wins_and_the_other_is_reported(
    folder: Path, write: Write
) -> None:
    write("a/b.md", AGENT.replace("d\n", "last\n"))
    write("a/b/agent.md", AGENT.replace("d\n", "second\n"))
    write("a/b/prompt.md", AGENT.replace("d\n", "first\n"))

    snapshot = await _load(folder)

    [entry] = snapshot.entries.values()
    assert entry.definition is not None and entry.definition.description == "first"
    assert [(p.code, Path(p.file).name) for p in snapshot.problems] == [
        ("duplicate-id", "agent.md"),
        ("duplicate-id", "b.md"),
    ]


@pytest.mark.spec("DEF-05")
async def test_underscored_files_prompts_folders_and_files_without_frontmatter_hold_no_agents(
    folder: Path, write: Write
) -> None:
    write("_draft.md")
    write("prompts/side.md")
    write("README.md", "# Read me\n")
    write("note.txt")
    write(".hidden/x.md")
    write("node_modules/x.md")

    snapshot = await _load(folder)

    assert snapshot.entries == {}
    assert [p.code for p in snapshot.problems] == ["no-frontmatter"]


@pytest.mark.spec("DEF-08")
async def test_a_bad_file_does_not_stop_its_neighbours(folder: Path, write: Write) -> None:
    write("good.md")
    write("bad.md", "---\ntools: true\n---\nx\n")
    write("binary.md").write_bytes(b"---\n\xff\xfe\n---\n")

    snapshot = await _load(folder)

    assert {id: e.definition is not None for id, e in snapshot.entries.items()} == {
        "good": True,
        "bad": False,
        "binary": False,
    }


async def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    snapshot = await _load(tmp_path / "nowhere")

    assert (snapshot.entries, snapshot.error) == ({}, None)


@pytest.mark.spec("REG-01")
async def test_a_folder_that_is_no_folder_is_a_failed_source(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file")

    snapshot = await _load(tmp_path / "agents")

    assert snapshot.error is not None and snapshot.error.endswith("Not a directory")


@pytest.mark.spec("REG-02")
async def test_links_that_leave_the_folder_are_reported_and_not_followed(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(AGENT)
    write("inside.md")
    (folder / "file.md").symlink_to(outside / "secret.md")
    (folder / "dir").symlink_to(outside)
    (folder / "alias.md").symlink_to(folder / "inside.md")
    (folder / "loop").symlink_to(folder)

    snapshot = await _load(folder)

    assert sorted(snapshot.entries) == ["alias", "inside"]
    assert sorted((p.code, Path(p.file).name) for p in snapshot.problems) == [
        ("symlink-outside", "dir"),
        ("symlink-outside", "file.md"),
    ]


async def test_a_pipe_named_like_an_agent_does_not_hang_the_scan(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")

    assert (await _load(folder)).entries == {}


@pytest.mark.spec("DEF-13")
async def test_sides_find_their_prompts_and_a_changed_prompt_is_read_again(folder: Path, write: Write) -> None:
    dual = (
        "---\ndescription: d\ntype: dual_ai\nmax_session_turns: 4\n"
        "side_a: {prompt: asker}\nside_b: {prompt: judge}\n---\n"
    )
    write("team/talk.md", dual)
    write("plain.md")
    write("team/prompts/asker.md", "Ask.")
    write("prompts/judge.md", "---\nmodel: small\n---\nJudge.")
    source = DirectorySource("user", folder, kind="user")

    first = await source.load(None)
    write("prompts/judge.md", "Judge kindly.")
    second = await source.load(first)

    (talk, again) = (s.entries[AgentId("team/talk")] for s in (first, second))
    assert talk.definition is not None and again.definition is not None
    assert {n: (p.text, p.model) for n, p in talk.definition.prompts.items()} == {
        "asker": ("Ask.", None),
        "judge": ("Judge.", "small"),
    }
    assert again.definition.prompts["judge"].text == "Judge kindly."
    assert talk.hash != again.hash
    assert first.entries[AgentId("plain")] is second.entries[AgentId("plain")]


@pytest.mark.spec("DEF-13")
async def test_a_dangling_prompt_is_an_error_and_none_is_looked_for_outside(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    (tmp_path / "outside.md").write_text("secret")
    write("talk.md", "---\ndescription: d\nside_b: {prompt: ../outside}\ntype: dual_ai\n---\nx\n")

    [entry] = (await _load(folder)).entries.values()

    assert entry.definition is None
    assert "dangling-prompt" in [p.code for p in entry.problems]


def test_a_prompt_is_looked_for_beside_the_agent_then_in_prompts_folders_then_as_an_agent() -> None:
    assert prompt_paths("judge", "a/b/talk.md") == (
        "a/b/judge.md",
        "a/b/_judge.md",
        "a/b/prompts/judge.md",
        "a/prompts/judge.md",
        "prompts/judge.md",
        "judge/prompt.md",
        "judge/agent.md",
        "judge.md",
    )
    assert prompt_paths("../x", "a.md") == ()
    assert prompt_paths("/etc/x", "a.md") == ()


@pytest.mark.spec("REG-11")
async def test_only_changed_files_are_parsed_again(folder: Path, write: Write) -> None:
    write("same.md")
    changing = write("changing.md")
    source = DirectorySource("user", folder, kind="user")
    first = await source.load(None)
    changing.write_text(AGENT + "More.\n")
    write("added.md")

    second = await source.load(first)

    assert {id for id, e in second.entries.items() if first.entries.get(id) is e} == {"same"}
    assert sorted(second.entries) == ["added", "changing", "same"]


@pytest.mark.spec("REG-02")
async def test_an_agent_runs_only_with_the_hash_that_was_trusted(folder: Path, write: Write) -> None:
    file = write("x.md")
    trusted: dict[str, str] = {}
    source = DirectorySource("project", folder, kind="project", trust=lambda id, hash: trusted.get(id) == hash)

    async def is_trusted() -> bool:
        [entry] = (await source.load(None)).entries.values()
        return entry.trusted

    assert not await is_trusted()
    trusted["x"] = next(iter((await source.load(None)).entries.values())).hash
    assert await is_trusted()
    file.write_text(AGENT + "Now with more power.\n")
    assert not await is_trusted()


@pytest.mark.spec("REG-10")
async def test_a_file_may_list_several_remote_agents(folder: Path, write: Write) -> None:
    write(
        "partners.md",
        "---\n- {kind: remote, name: legal, description: d, agent_card_url: https://l.example/card}\n"
        "- {kind: remote, name: tax, description: d, agent_card_url: https://t.example/card}\n---\n",
    )

    snapshot = await _load(folder)

    assert sorted(snapshot.entries) == ["legal", "tax"]
