"""Every row of the table of file operations, on a real file system, through the tools."""

import ctypes
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from retinue.ports.tool import Inspection, Result, ToolContext
from retinue.schema.permission import Rule
from retinue.tools.glob import Glob
from retinue.tools.grep import Grep
from retinue.tools.list import List
from retinue.tools.multi_edit import MultiEdit
from retinue.tools.read import Read
from retinue.tools.write import Write

from .conftest import Judged

TABLE = Path(__file__).with_name("files.tsv")
NO_ENV = Rule(tool="read", pattern="**/.env*", verdict="deny")
"""As the table writes it; a file at the top has the name `./.env` too."""


@pytest.fixture
def here(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("inside\n")
    (workspace / ".env").write_text("KEY=hidden-value\n")
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n")
    (workspace.parent / "x").write_text("outside\n")
    return workspace


async def verdict_of_reading(path: str, context: ToolContext) -> str:
    """What the runtime would do: inspect, judge, and only then read."""
    tool = Read()
    return await _verdict(tool.inspect, tool.run, {"path": path}, context)


async def verdict_of_writing(path: str, context: ToolContext) -> str:
    tool = Write()
    return await _verdict(tool.inspect, tool.run, {"path": path, "content": "new"}, context)


async def _verdict(
    inspect: Callable[[dict[str, object], ToolContext], Awaitable[Inspection]],
    run: Callable[[dict[str, object], ToolContext], Awaitable[Result]],
    arguments: dict[str, object],
    context: ToolContext,
) -> str:
    inspection = await inspect(arguments, context)
    verdicts = {context.judge(target).verdict for target in inspection.targets}
    result = await run(arguments, context)
    if "deny" in verdicts or (inspection.failure and inspection.failure.status == "denied"):
        assert result.status == "denied", result
        return "deny"
    if "ask" in verdicts:
        assert result.status == "denied", "what needs a person does not run without one"
        approved = msgspec.structs.replace(context, approved=inspection.targets)
        assert (await run(arguments, approved)).status == "ok", "what a person approved runs"
        return "ask"
    assert result.status == "ok", result
    return "allow"


async def inside(here: Path, judged: Judged) -> str:
    return await verdict_of_reading("a.txt", judged())


async def outside(here: Path, judged: Judged) -> str:
    assert await verdict_of_reading(f"{here}/../x", judged()) == "ask"
    assert await verdict_of_reading(f"{here}/./.git/../../x", judged()) == "ask"
    return await verdict_of_reading("../x", judged())


async def twin(here: Path, judged: Judged) -> str:
    other = here.with_name("work2")
    other.mkdir()
    (other / "x").write_text("x")
    return await verdict_of_reading(str(other / "x"), judged())


async def link_out(here: Path, judged: Judged) -> str:
    (here / "link").symlink_to("/etc/passwd")
    return await verdict_of_reading("link", judged())


async def link_in(here: Path, judged: Judged) -> str:
    (here / "relative").symlink_to("a.txt")
    (here / "link").symlink_to(here / "a.txt")
    assert await verdict_of_reading("relative", judged()) == "allow"
    return await verdict_of_reading("link", judged())


async def linked_parent(here: Path, judged: Judged) -> str:
    (here.parent / "elsewhere").mkdir()
    (here / "dirlink").symlink_to(here.parent / "elsewhere")
    verdict = await verdict_of_writing("dirlink/new", judged())
    assert not (here.parent / "elsewhere" / "new").exists()
    return verdict


async def pattern(here: Path, judged: Judged) -> str:
    return await verdict_of_reading(".env", judged(NO_ENV))


async def alias(here: Path, judged: Judged) -> str:
    (here / "alias").symlink_to(".env")
    (here / "hard").hardlink_to(here / ".env")
    assert await verdict_of_reading("hard", judged(NO_ENV)) == "deny"
    return await verdict_of_reading("alias", judged(NO_ENV))


async def hook(here: Path, judged: Judged) -> str:
    return await verdict_of_writing(".git/hooks/pre-commit", judged())


async def git_config(here: Path, judged: Judged) -> str:
    await Read().run({"path": ".git/config"}, judged())
    return await verdict_of_writing(".git/config", judged())


async def agent_file(here: Path, judged: Judged) -> str:
    return await verdict_of_writing(".retinue/agents/x.md", judged())


async def settings(here: Path, judged: Judged) -> str:
    verdict = await verdict_of_writing(".retinue/permissions.toml", judged())
    assert not (here / ".retinue").exists()
    return verdict


async def move_git(here: Path, judged: Judged) -> str:
    patch = "rename from .git/config\nrename to .git2/config\n"
    await Read().run({"path": ".git/config"}, judged())
    result = await MultiEdit().run({"patch": patch}, judged())
    assert (here / ".git" / "config").exists()
    return "deny" if result.status == "denied" else result.text


async def start_file(here: Path, judged: Judged) -> str:
    return await verdict_of_writing(".bashrc", judged())


async def process_secrets(here: Path, judged: Judged) -> str:
    return await verdict_of_reading("/proc/self/environ", judged())


async def no_file(here: Path, judged: Judged) -> str:
    os.mkfifo(here / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(here / "socket"))
        assert await verdict_of_reading("socket", judged()) == "deny"
    assert await verdict_of_reading("/dev/zero", judged()) == "deny"
    return await verdict_of_reading("pipe", judged())


async def malformed(here: Path, judged: Judged) -> str:
    for path in ("a\0.txt", "a\x1b[2J.txt", "a\n.txt", "a\u202etxt.exe"):
        assert await verdict_of_reading(path, judged()) == "deny"
    return "deny"


async def tilde(here: Path, judged: Judged) -> str:
    (here / "~").mkdir()
    (here / "~" / "x").write_text("literal\n")
    return "literal" if "literal" in (await Read().run({"path": "~/x"}, judged())).text else "expanded"


async def searching(here: Path, judged: Judged) -> str:
    (here / "hard").hardlink_to(here / ".env")
    context = judged(NO_ENV)
    for program in (True, False):
        grep = await Grep(use_program=program).run({"pattern": "hidden-value|inside"}, context)
        glob = await Glob(use_program=program).run({"pattern": "*"}, context)
        assert "a.txt:1:inside" in grep.text
        assert "a.txt" in glob.text
        for result in (grep, glob):
            assert "hidden-value" not in result.text
            assert ".env" not in result.text
            assert "hard" not in result.text
    tree = await List().run({}, context)
    assert "a.txt" in tree.text
    assert ".env" not in tree.text
    return "hidden"


async def changed_after_approval(here: Path, judged: Judged) -> str:
    """What was approved is the target in the state it had; the arguments are the runtime's to compare."""
    ask = judged(Rule(tool="edit", pattern="*", verdict="ask"))
    await Read().run({"path": "a.txt"}, ask)
    arguments: dict[str, object] = {"path": "a.txt", "content": "new"}
    approved = msgspec.structs.replace(ask, approved=(await Write().inspect(arguments, ask)).targets)
    (here / "a.txt").write_text("changed by somebody")
    result = await Write().run(arguments, approved)
    assert result.status == "denied"
    assert "Ask again" in result.text
    assert (here / "a.txt").read_text() == "changed by somebody"
    return "ask"


async def swapped(here: Path, judged: Judged) -> str:
    """A thread swaps a folder for a link as fast as it can; nothing outside is ever read or written."""
    secret = here.parent / "secret"
    secret.mkdir()
    (secret / "data").write_text("SECRET")
    (here / "folder").mkdir()
    (here / "folder" / "data").write_text("harmless")
    (here / "link").symlink_to(secret)
    stop = threading.Event()

    exchange = ctypes.CDLL(None).renameat2
    names = [os.fsencode(here / name) for name in ("folder", "link")]

    def swap() -> None:
        while not stop.is_set():
            assert exchange(-100, names[0], -100, names[1], 2) == 0

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes: set[str] = set()
    try:
        for number in range(150):
            for result in (
                await Read().run({"path": "folder/data"}, judged()),
                await Write().run({"path": f"folder/new{number}", "content": "x"}, judged()),
                await Grep().run({"pattern": "SECRET"}, judged()) if number % 15 == 0 else Result(),
            ):
                assert "1\tSECRET" not in result.text
                assert "data:1" not in result.text
                outcomes.add(result.status)
    finally:
        stop.set()
        swapper.join()
    assert [p.name for p in secret.iterdir()] == ["data"]
    assert outcomes == {"ok", "denied"}
    return "deny"


ROWS: dict[str, Callable[[Path, Judged], Awaitable[str]]] = {
    "read W/a.txt": inside,
    "read W/../x": outside,
    "read W2/x (a folder whose name starts like W)": twin,
    "read W/link -> /etc/passwd": link_out,
    "read W/link -> W/a.txt": link_in,
    "write W/dirlink/new -> outside": linked_parent,
    'read W/.env when read "**/.env*" is denied': pattern,
    "read W/alias (symlink or hard link to W/.env), same rule": alias,
    "write W/.git/hooks/pre-commit": hook,
    "write W/.git/config": git_config,
    "write W/.retinue/agents/x.md by an agent": agent_file,
    "create W/.retinue/permissions.toml where none exists": settings,
    "rename W/.git to W/.git2": move_git,
    "write W/.bashrc": start_file,
    "read /proc/self/environ": process_secrets,
    "read a FIFO or a device": no_file,
    "read a name with NUL or control characters": malformed,
    'read "~/x" from a file tool': tilde,
    "grep or glob over a folder that holds a denied file": searching,
    "write whose content changed after approval": changed_after_approval,
    "folder swapped for a link between check and use": swapped,
}


def rows() -> list[tuple[str, str]]:
    lines = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return [(operation, verdict) for operation, verdict, _ in lines[1:]]


@pytest.mark.spec("PERM-03")
@pytest.mark.parametrize(("operation", "verdict"), rows(), ids=[name for name, _ in rows()])
async def test_the_table_of_file_operations_is_kept(operation: str, verdict: str, here: Path, judged: Judged) -> None:
    assert await ROWS[operation](here, judged) == verdict


async def test_the_threads_own_files_are_read_without_asking_and_not_written(judged: Judged) -> None:
    context = judged(Rule(tool="read", verdict="ask"))
    path = Path(context.files) / "outputs" / "call.txt"
    path.parent.mkdir()
    path.write_text("saved\n")

    assert (await Read().inspect({"path": str(path)}, context)).targets == ()
    assert "saved" in (await Read().run({"path": str(path)}, context)).text
    assert (await Write().run({"path": str(path), "content": ""}, context)).status == "denied"


async def test_a_link_to_nothing_is_not_written_through(here: Path, judged: Judged) -> None:
    (here / "dangling").symlink_to(here.parent / "made")

    result = await Write().run({"path": "dangling", "content": "x"}, judged())

    assert result.status == "error"
    assert not (here.parent / "made").exists()


async def test_a_person_who_approves_a_folder_outside_sees_what_is_in_it(here: Path, judged: Judged) -> None:
    context = judged(NO_ENV)
    (here.parent / "other").mkdir()
    (here.parent / "other" / "seen").write_text("word\n")
    (here.parent / "other" / ".env").write_text("word\n")
    arguments: dict[str, object] = {"pattern": "word", "path": "../other", "output": "files"}
    inspection = await Grep().inspect(arguments, context)

    assert (await Grep().run(arguments, context)).status == "denied"
    approved = msgspec.structs.replace(context, approved=inspection.targets)
    assert (await Grep().run(arguments, approved)).text == str(here.parent / "other" / "seen")


async def test_what_needs_approval_stays_out_of_searches_of_what_does_not(here: Path, judged: Judged) -> None:
    """The runtime hands over the targets of every call that it let pass, not only of those it asked for."""
    context = judged(Rule(tool="read", pattern="*.env", verdict="ask"))
    arguments: dict[str, object] = {"pattern": "hidden-value|inside"}
    inspection = await Grep().inspect(arguments, context)
    passed = msgspec.structs.replace(context, approved=inspection.targets)

    assert (await Grep().run(arguments, passed)).text == "a.txt:1:inside"
