"""Files across threads: copied by content, local paths, nothing from outside, both ways."""

from pathlib import Path

import pytest

from retinue.app.retinue import Retinue
from retinue.models.script import Say, ScriptedRequest
from retinue.runtime import attachments
from retinue.schema.agent import AgentDefinition, Binding, Resumable, Side, Subagent
from retinue.schema.errors import UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.ids import ThreadId
from retinue.schema.permission import Permissions, Rule
from retinue.testing.harness import Scripts, log_of
from support.agents import agent
from support.opening import OpenApp
from support.tree import call, children, finished, outcomes, silent, texts


def boss(*configs: Subagent, **keys: object) -> AgentDefinition:
    return agent("lead", **{"subagents": configs, "can_spawn_subagents": True, **keys})


def painter(**keys: object) -> AgentDefinition:
    """Two sides whose worker fails and whose reviewer approves, both with files."""
    return agent(
        "painter",
        type="dual_ai",
        max_session_turns=4,
        side_a=Side(
            session_fail=Binding(name="fail", message_property="why", attachments_property="files"),
            session_stop=Binding(name="finish", message_property="text", attachments_property="files"),
        ),
        side_b=Side(),
        **keys,
    )


def paths_in(text: str) -> list[str]:
    return [line[2:] for line in text.splitlines() if line.startswith("- /")]


def own(app: Retinue, thread: str) -> Path:
    return app.engine.runtime.files(ThreadId(thread))


CONFIG = Subagent(name="painter", init_attachments_property=("sketch", "more"))


@pytest.mark.spec("SUB-14", "SUB-06")
@pytest.mark.parametrize("ending", ["finish", "fail"])
async def test_files_are_copied_both_ways_with_paths_of_the_receivers_own(
    open_app: OpenApp, tmp_path: Path, ending: str
) -> None:
    """§7.12: "parent → child for initial …, child → parent for completion and failure payload attachments. The
    destination thread MUST receive destination-local attachment paths"."""
    heard: list[str] = []

    def worker(request: ScriptedRequest) -> Say:
        heard.append(request.message)
        (tmp_path / "workspace" / "sketch.txt").write_text("changed after it was sent")
        (tmp_path / "workspace" / "result.png").write_bytes(b"picture")
        return call(ending, why="no", text="yes", files=["result.png"])

    def leader(request: ScriptedRequest) -> Say:
        if request.step == 1:
            (tmp_path / "workspace" / "sketch.txt").write_text("lines")
            return call("agent_painter", message="paint", sketch=["sketch.txt"], more=["other.txt"])
        return Say(text="ok")

    async with open_app({"lead": leader, "painter": worker}, agents=[boss(CONFIG), painter()]) as app:
        (tmp_path / "workspace" / "other.txt").write_text("other")
        thread = (await app.run("lead", "go")).thread
        [child] = await children(app, thread)
        log, below = await log_of(app, thread), await log_of(app, child.reference)
        sent, got = paths_in(heard[0]), [e for e in log if isinstance(e, FileAttached)]
        assert [Path(p).read_text() for p in sent] == ["lines", "other"]
        assert all(Path(p).is_relative_to(own(app, child.reference)) for p in sent)
        assert {e.path for e in below if isinstance(e, FileAttached)} >= set(sent)
        assert [Path(e.path).read_bytes() for e in got] == [b"picture"]
        assert all(Path(e.path).is_relative_to(own(app, thread)) for e in got)
    (outcome,) = outcomes(log)
    assert outcome.status == ("ok" if ending == "finish" else "error")
    assert got[0].path in outcome.text


@pytest.mark.spec("SUB-14", "SUB-12")
@pytest.mark.parametrize("ending", ["finish", "fail"])
async def test_a_queued_report_lists_the_copies(open_app: OpenApp, tmp_path: Path, ending: str) -> None:
    """§7.10: "Returned attachments (if any) are copied child → parent and included as parent-local paths"."""

    def worker(_: ScriptedRequest) -> Say:
        (tmp_path / "workspace" / "a.txt").write_text("A")
        return call(ending, why="no", text="yes", files=["a.txt"])

    scripts: Scripts = {
        "lead": lambda r: call("agent_painter", message="x") if r.step == 1 else Say("ok"),
        "painter": worker,
    }
    config = Subagent(name="painter", blocking=False)
    async with open_app(scripts, agents=[boss(config), painter()]) as app:
        thread = (await app.run("lead", "go")).thread
        await finished(app, thread, 2)
        (said,) = silent(await log_of(app, thread))
        (path,) = paths_in(said)
        assert Path(path).read_text() == "A"
        assert Path(path).is_relative_to(own(app, thread))


@pytest.mark.spec("SUB-14", "SUB-08")
async def test_created_and_messaged_children_get_copies_also_after_a_restart(open_app: OpenApp, tmp_path: Path) -> None:
    """§7.10: "Attachment paths MUST be copied from the parent filesystem to the child filesystem before queuing"."""
    heard: list[str] = []

    def worker(request: ScriptedRequest) -> Say:
        heard.append(request.message)
        return call("finish", text="ok", files=[])

    def leader(request: ScriptedRequest) -> Say:
        if request.message == "go" and not request.outcomes:
            return call("subagent_create", agent="painter", name="p", message="one", attachments=["a.txt"])
        if request.message == "more" and not request.outcomes:
            reference = request.tail.split("reference ")[1].split(",")[0]
            return call("subagent_message", reference=reference, message="two", attachments=["b.txt"])
        return Say(text="ok")

    agents = [boss(Subagent(name="painter", resumable=Resumable())), painter()]
    async with open_app({"lead": leader, "painter": worker}, agents=agents) as app:
        (tmp_path / "workspace" / "a.txt").write_text("A")
        (tmp_path / "workspace" / "b.txt").write_text("B")
        thread = (await app.run("lead", "go")).thread
    async with open_app({"lead": leader, "painter": worker}, agents=agents) as app:
        await app.engine.send(ThreadId(thread), "more")
        await finished(app, thread, 2)
        [child] = await children(app, thread)
        paths = [p for text in heard for p in paths_in(text)]
        assert [Path(p).read_text() for p in dict.fromkeys(paths)] == ["A", "B"]
        assert all(Path(p).is_relative_to(own(app, child.reference)) for p in paths)


@pytest.mark.spec("SUB-14")
@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "link", "folder/up/secret", "absent", ".", "", "a\0b"])
async def test_nothing_outside_the_thread_and_its_workspace_is_handed_out(
    open_app: OpenApp, tmp_path: Path, path: str
) -> None:
    def leader(request: ScriptedRequest) -> Say:
        return call("agent_painter", message="x", sketch=[path]) if request.step == 1 else Say(text="ok")

    async with open_app({"lead": leader}, agents=[boss(CONFIG), painter()]) as app:
        workspace = tmp_path / "workspace"
        (tmp_path / "secret").write_text("s")
        (workspace / "link").symlink_to(tmp_path / "secret")
        (workspace / "folder").mkdir()
        (workspace / "folder" / "up").symlink_to(tmp_path)
        thread = (await app.run("lead", "go")).thread
        log = await log_of(app, thread)
        assert await children(app, thread) == []
    assert "is not a file of this thread or its workspace" in texts(log)[0]


@pytest.mark.spec("SUB-14", "SUB-04")
async def test_a_file_that_rules_close_is_not_handed_out_either(open_app: OpenApp, tmp_path: Path) -> None:
    """Our own rule: a copy would let the child read what its caller may not."""

    def leader(request: ScriptedRequest) -> Say:
        return call("agent_painter", message="x", sketch=["keys.txt"]) if request.step == 1 else Say(text="ok")

    closed = Permissions(default="allow", rules=(Rule(tool="read", pattern="**/keys.txt", verdict="deny"),))
    async with open_app({"lead": leader}, agents=[boss(CONFIG, permissions=closed), painter()]) as app:
        (tmp_path / "workspace" / "keys.txt").write_text("k")
        thread = (await app.run("lead", "go")).thread
        log = await log_of(app, thread)
        assert await children(app, thread) == []
    assert "can't be handed over, because you may not read it" in texts(log)[0]


@pytest.mark.spec("SUB-14")
async def test_a_path_that_a_binding_gives_wrongly_is_told_to_the_child_and_strands_nobody(open_app: OpenApp) -> None:
    def worker(request: ScriptedRequest) -> Say:
        return call("finish", text="ok", files=["absent.png"] if not request.outcomes else [])

    scripts: Scripts = {"lead": [call("agent_painter", message="x"), Say(text="ok")], "painter": worker}
    async with open_app(scripts, agents=[boss(CONFIG), painter()]) as app:
        completion = await app.run("lead", "go")
        [child] = await children(app, completion.thread)
        below = await log_of(app, child.reference)
    assert completion.result == "ok"
    assert "absent.png is not a file" in texts(below)[0]


@pytest.mark.spec("SUB-14")
def test_sizes_are_bounded_and_names_made_safe(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an attachment may have"):
        attachments.store(tmp_path, "big", b"x" * (attachments.MAX_BYTES + 1), at=0)
    kept = attachments.store(tmp_path, "../..\\ev il.txt", b"x", at=0)
    assert Path(kept.path).parent == tmp_path / attachments.FOLDER
    assert attachments.store(tmp_path, "../..\\ev il.txt", b"x", at=0) == kept


@pytest.mark.spec("SUB-14")
async def test_a_large_file_and_too_many_files_are_refused_before_they_are_read(
    open_app: OpenApp, tmp_path: Path
) -> None:
    def leader(request: ScriptedRequest) -> Say:
        match request.step:
            case 1:
                return call("agent_painter", message="x", sketch=["big"])
            case 2:
                return call("agent_painter", message="x", more=["a.txt"] * (attachments.MAX_FILES + 1))
            case _:
                return Say(text="ok")

    async with open_app({"lead": leader}, agents=[boss(CONFIG), painter()]) as app:
        with (tmp_path / "workspace" / "big").open("wb") as file:
            file.truncate(attachments.MAX_BYTES + 1)
        log = await log_of(app, (await app.run("lead", "go")).thread)
    assert "an attachment may have" in texts(log)[0]
    assert "more than 64" in texts(log)[1]
