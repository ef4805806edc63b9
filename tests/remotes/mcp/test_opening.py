"""Real servers, written by others: from npm and PyPI, over pipes and HTTP, old protocol and new."""

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from retinue.ports.tool import Inquiry
from retinue.schema.agent import McpServer
from support.mcp import SERVERS, Caller, McpFactory
from support.ports import free_port


def node(npm: Path, name: str, *args: str) -> McpServer:
    return McpServer(command=shutil.which("node") or "node", args=(str(npm / name / "dist" / "index.js"), *args))


@asynccontextmanager
async def listening(command: list[str], port: int, **env: str) -> AsyncGenerator[None]:
    """A server over HTTP, once it accepts connections."""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **env}, stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None, "the server ended"
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                await writer.wait_closed()
                break
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.spec("TOOL-06")
async def test_everything_gives_text_images_resources_structure_and_progress(
    mcp: McpFactory, tmp_path: Path, npm: Path
) -> None:
    caller = Caller(mcp({"all": node(npm, "server-everything", "stdio")}), tmp_path, "all")

    assert (await caller.call("mcp_all_echo", message="hi")).text == "Echo: hi"
    image = await caller.call("mcp_all_get-tiny-image")
    assert [media.mime for media in image.media] == ["image/png"]
    assert base64.b64decode(image.media[0].data or "").startswith(b"\x89PNG")
    resource = await caller.call("mcp_all_get-resource-reference", resourceType="Text", resourceId=1)
    assert "[resource demo://resource/dynamic/text/1]\n" in resource.text
    links = await caller.call("mcp_all_get-resource-links", count=2)
    assert links.text.count("[resource ") == 2
    structured = await caller.call("mcp_all_get-structured-content", location="Chicago")
    assert structured.metadata["structured"]
    assert (await caller.call("mcp_all_trigger-long-running-operation", duration=0.2, steps=2)).status == "ok"
    assert caller.said == ["1/2\n", "2/2\n"]


@pytest.mark.spec("TOOL-06", "PERM-07")
async def test_filesystem_and_memory_work_in_the_sandbox(
    mcp: McpFactory, tmp_path: Path, npm: Path, bubblewrap: None
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("hello")
    memory = node(npm, "server-memory")
    servers = {
        "fs": node(npm, "server-filesystem", str(workspace)),
        "memory": McpServer(command=memory.command, args=memory.args, env={"MEMORY_FILE_PATH": "/tmp/memory.jsonl"}),
    }
    caller = Caller(mcp(servers, sandbox="auto"), tmp_path, "fs", "memory")

    assert (await caller.call("mcp_fs_read_text_file", path=str(workspace / "a.txt"))).text == "hello"
    denied = await caller.call("mcp_fs_read_text_file", path="/etc/passwd")
    assert (denied.status, denied.taints) == ("error", ("private", "untrusted"))
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes"]}
    await caller.call("mcp_memory_create_entities", entities=[entity])
    assert "writes" in (await caller.call("mcp_memory_search_nodes", query="Ada")).text


@pytest.mark.spec("TOOL-06", "PERM-07")
async def test_git_time_and_fetch_work_in_the_sandbox_and_fetch_has_no_network_there(
    mcp: McpFactory, tmp_path: Path, pypi: Path, bubblewrap: None
) -> None:
    workspace = tmp_path / "workspace"
    await (await asyncio.create_subprocess_exec("git", "init", "-q", str(workspace))).wait()
    (workspace / "a.txt").write_text("hello")
    servers = {name: McpServer(command=str(pypi / f"mcp-server-{name}")) for name in ("git", "time", "fetch")}
    caller = Caller(mcp(servers, sandbox="auto", wait=60.0), tmp_path, *servers)

    assert "a.txt" in (await caller.call("mcp_git_git_status", repo_path=str(workspace))).text
    assert "UTC" in (await caller.call("mcp_time_get_current_time", timezone="UTC")).text
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        fetched = await caller.call("mcp_fetch_fetch", url=f"http://127.0.0.1:{port}/")
    assert fetched.status == "error"


@pytest.mark.spec("TOOL-06")
async def test_everything_over_http_keeps_a_session_and_asks_people(mcp: McpFactory, tmp_path: Path, npm: Path) -> None:
    port = free_port()
    command = [shutil.which("node") or "node", str(npm / "server-everything" / "dist" / "index.js"), "streamableHttp"]
    async with listening(command, port, PORT=str(port)):
        server = McpServer(url=f"http://127.0.0.1:{port}/mcp")
        caller = Caller(mcp({"all": server}, allow=(f"127.0.0.1:{port}",)), tmp_path, "all")
        names = await caller.names()

        assert (await caller.call("mcp_all_echo", message="hi")).text == "Echo: hi"
        assert "mcp_all_trigger-elicitation-request" in names

        async def decline(inquiry: Inquiry) -> object:
            return False if inquiry.kind == "approval" else "decline"

        asked = await caller.call("mcp_all_trigger-elicitation-request", ask=decline)
        assert "declined" in asked.text


@pytest.mark.spec("TOOL-06")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_of_the_new_protocol_asks_reports_and_changes(
    mcp: McpFactory, tmp_path: Path, transport: str
) -> None:
    program, port = str(SERVERS / "modern.py"), free_port()

    async def ask(inquiry: Inquiry) -> object:
        return "blue" if "olour" in inquiry.prompt else "3"

    async def check(server: McpServer) -> None:
        caller = Caller(mcp({"new": server}, allow=(f"127.0.0.1:{port}",)), tmp_path, "new")
        assert (await caller.call("mcp_new_choose", ask=ask)).text == "blue 3"
        assert (await caller.call("mcp_new_steps")).text == "done"
        assert caller.said == ["step 1 (1/2)\n", "step 2 (2/2)\n"]
        assert (await caller.call("mcp_new_picture")).media[0].mime == "image/png"
        await caller.call("mcp_new_grow")
        async with asyncio.timeout(10):
            while "mcp_new_late" not in await caller.names():  # over HTTP the news has a way of its own
                await caller.call("mcp_new_picture")
        assert (await caller.call("mcp_new_late")).text == "late ran"

    if transport == "stdio":
        await check(McpServer(command=sys.executable, args=(program,)))
        return
    async with listening([sys.executable, program, str(port)], port):
        await check(McpServer(url=f"http://127.0.0.1:{port}/mcp"))
