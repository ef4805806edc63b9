import os
import stat
from pathlib import Path

import msgspec
import pytest

from retinue.ports.tool import Result, ToolContext
from retinue.tools.edit import Edit
from retinue.tools.multi_edit import MultiEdit
from retinue.tools.read import Read
from retinue.tools.write import Write


async def write(context: ToolContext, path: str, content: str) -> Result:
    return await Write().run({"path": path, "content": content}, context)


async def edit(context: ToolContext, path: str, old: str, new: str, **more: object) -> Result:
    return await Edit().run({"path": path, "old_string": old, "new_string": new, **more}, context)


@pytest.mark.spec("TOOL-01")
async def test_a_new_file_is_created_with_its_folders(workspace: Path, context: ToolContext) -> None:
    result = await write(context, "a/b/c.txt", "hello\n")

    assert result.status == "ok"
    assert (workspace / "a/b/c.txt").read_text() == "hello\n"
    assert result.text.startswith(f"Created {workspace}/a/b/c.txt (6 bytes).")
    assert (workspace / "a/b/c.txt").stat().st_mode & 0o111 == 0


@pytest.mark.spec("TOOL-01")
async def test_replacing_keeps_mode_and_line_endings_and_leaves_nothing_else(
    workspace: Path, context: ToolContext
) -> None:
    path = workspace / "run.sh"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o750)
    await Read().run({"path": "run.sh"}, context)

    assert (await write(context, "run.sh", "three\nfour\n")).status == "ok"

    assert path.read_bytes() == b"three\r\nfour\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert os.listdir(workspace) == ["run.sh"]  # noqa: PTH208 - the names are the point


async def test_a_file_that_was_not_read_or_changed_since_is_not_changed(workspace: Path, context: ToolContext) -> None:
    path = workspace / "a.txt"
    path.write_text("old\n")

    unread = await write(context, "a.txt", "new\n")
    unread_edit = await edit(context, "a.txt", "old", "new")
    await Read().run({"path": "a.txt"}, context)
    path.write_text("changed\n")
    changed = await edit(context, "a.txt", "changed", "new")

    assert "has not read it" in unread.text
    assert "has not read it" in unread_edit.text
    assert "changed since this thread read it" in changed.text
    assert path.read_text() == "changed\n"


async def test_what_was_read_is_known_after_a_restart_and_what_was_written_counts_as_read(
    workspace: Path, context: ToolContext
) -> None:
    (workspace / "a.txt").write_text("one\n")
    await Read().run({"path": "a.txt"}, context)
    later = msgspec.structs.replace(context, call=context.call)

    assert (await edit(later, "a.txt", "one", "two")).status == "ok"
    assert (await edit(later, "a.txt", "two", "three")).status == "ok"
    assert (await write(later, "a.txt", "four\n")).status == "ok"


async def test_writing_the_same_again_is_no_harm(workspace: Path, context: ToolContext) -> None:
    """Recovery repeats an idempotent call whose outcome was not recorded."""
    (workspace / "a.txt").write_text("same\n")

    assert (await write(context, "a.txt", "same\n")).status == "ok"
    assert (await write(context, "a.txt", "same\n")).text.startswith("Left unchanged")


@pytest.mark.spec("PERM-05")
async def test_inspecting_shows_the_diff_and_touches_nothing(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_text("one\ntwo\nthree\n")
    await Read().run({"path": "a.txt"}, context)
    arguments: dict[str, object] = {"path": "a.txt", "old_string": "two", "new_string": "2"}

    inspection = await Edit().inspect(arguments, context)

    assert inspection.preview == "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert [(t.op, t.path, t.kind) for t in inspection.targets] == [("write", str(workspace / "a.txt"), "file")]
    assert inspection.failure is None
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"
    created = await Write().inspect({"path": "new/x", "content": "y"}, context)
    assert created.preview == "--- /dev/null\n+++ b/new/x\n@@ -0,0 +1 @@\n+y\n\\ No newline at end of file\n"
    assert not (workspace / "new").exists()


async def test_inspecting_a_change_that_can_not_work_tells_the_failure_with_the_target(
    workspace: Path, context: ToolContext
) -> None:
    (workspace / "a.txt").write_text("one\n")
    await Read().run({"path": "a.txt"}, context)

    inspection = await Edit().inspect({"path": "a.txt", "old_string": "two", "new_string": "2"}, context)

    assert inspection.failure is not None
    assert "not in the file" in inspection.failure.text
    assert [t.path for t in inspection.targets] == [str(workspace / "a.txt")]


@pytest.mark.parametrize(
    ("data", "after"),
    [
        ("größe\n".encode("latin-1"), "kleine\n".encode("latin-1")),
        ("größe\r\n".encode("utf-16"), "kleine\r\n".encode("utf-16")),
        (b"\xef\xbb\xbfgr\xc3\xb6\xc3\x9fe\r\n", b"\xef\xbb\xbfkleine\r\n"),
        ("größe\r\nx\n".encode(), b"kleine\r\nx\n"),
    ],
)
async def test_an_edit_keeps_the_encoding(data: bytes, after: bytes, workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_bytes(data)
    await Read().run({"path": "a.txt"}, context)

    assert (await edit(context, "a.txt", "größe", "kleine")).status == "ok"

    assert (workspace / "a.txt").read_bytes() == after


async def test_text_that_the_encoding_can_not_hold_is_refused(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_bytes("größe\n".encode("latin-1"))
    await Read().run({"path": "a.txt"}, context)

    assert "latin-1, which can't hold '→'" in (await edit(context, "a.txt", "größe", "→")).text


async def test_a_link_is_written_through_to_the_file_it_names(workspace: Path, context: ToolContext) -> None:
    (workspace / "real.txt").write_text("one\n")
    (workspace / "link.txt").symlink_to("real.txt")
    await Read().run({"path": "link.txt"}, context)

    assert (await edit(context, "link.txt", "one", "two")).status == "ok"

    assert (workspace / "link.txt").is_symlink()
    assert (workspace / "real.txt").read_text() == "two\n"


@pytest.mark.spec("TOOL-01")
async def test_a_patch_changes_creates_removes_and_renames_or_does_nothing(
    workspace: Path, context: ToolContext
) -> None:
    for name in ("a", "b", "c"):
        (workspace / name).write_text(f"{name}1\n{name}2\n{name}3\n")
        await Read().run({"path": name}, context)
    good = (
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n a1\n-a2\n+A2\n a3\n"
        "--- a/b\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-b1\n-b2\n-b3\n"
        "--- /dev/null\n+++ b/new/d\n@@ -0,0 +1 @@\n+d1\n"
        "rename from c\nrename to e\n"
    )
    bad = good.replace("-b3", "-b4")

    refused = await MultiEdit().run({"patch": bad}, context)
    untouched = sorted(p.name for p in workspace.iterdir())
    done = await MultiEdit().run({"patch": good}, context)

    assert "b: hunk 1 does not fit" in refused.text
    assert untouched == ["a", "b", "c"]
    assert done.status == "ok"
    assert {str(p.relative_to(workspace)): p.read_text() for p in workspace.rglob("*") if p.is_file()} == {
        "a": "a1\nA2\na3\n",
        "e": "c1\nc2\nc3\n",
        "new/d": "d1\n",
    }


async def test_a_failure_in_the_middle_puts_everything_back(workspace: Path, context: ToolContext) -> None:
    """The second file's folder is a file by the time it is made, which only swapping finds out."""
    (workspace / "a").write_text("a\n")
    (workspace / "name").write_text("taken\n")
    await Read().run({"path": "a"}, context)
    patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- /dev/null\n+++ b/name/x\n@@ -0,0 +1 @@\n+x\n"

    result = await MultiEdit().run({"patch": patch}, context)

    assert result.status == "error"
    assert (workspace / "a").read_text() == "a\n"
    assert sorted(p.name for p in workspace.iterdir()) == ["a", "name"]


async def test_several_edits_are_made_in_order_or_not_at_all(workspace: Path, context: ToolContext) -> None:
    (workspace / "a").write_text("one two\n")
    await Read().run({"path": "a"}, context)
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "1 two", "new_string": "1 2"}]

    bad = await MultiEdit().run({"path": "a", "edits": [*edits, {"old_string": "x", "new_string": "y"}]}, context)
    good = await MultiEdit().run({"path": "a", "edits": edits}, context)

    assert "Edit 3 of 3" in bad.text
    assert good.status == "ok"
    assert (workspace / "a").read_text() == "1 2\n"
    assert "Give either" in (await MultiEdit().run({"path": "a"}, context)).text
    assert MultiEdit().resource({"path": "a", "edits": edits}) == "a"
