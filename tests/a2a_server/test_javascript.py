"""The compatibility agent, spoken to by the official JavaScript SDK."""

import asyncio
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from support.a2a import a2a_compat

pytestmark = pytest.mark.spec("API-05")
SDK = "@a2a-js/sdk@1.3.0"
BUILD = Path(__file__).parents[2] / "build" / "a2a-js"


@pytest.fixture(scope="module")
def sdk() -> Path:
    """Installed once below `build`, also when several processes test."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node and npm are needed")
        pytest.skip("there is no node")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (BUILD / "node_modules" / "@a2a-js" / "sdk").exists():
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", SDK], cwd=BUILD, check=True)
    return BUILD


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_sdk_sends_streams_answers_lists_and_cancels(sdk: Path, binding: str) -> None:
    program = str(Path(__file__).with_name("client.mjs"))
    async with asyncio.timeout(60), a2a_compat() as url:
        node = await asyncio.create_subprocess_exec("node", program, url, binding, cwd=sdk, stdout=-1)
        out, _ = await node.communicate()
    answer = msgspec.json.decode(out, type=dict[str, object])
    assert "Hello from TCK" in str(answer.pop("sent"))
    assert answer == {
        "kinds": ["task", "statusUpdate", "artifactUpdate", "statusUpdate"],
        "alone": ["message"],
        "heard": ["task", "statusUpdate", "artifactUpdate", "statusUpdate"],
        "state": [3, 5],
        "total": 1,
        "refused": ["TaskNotFoundError", "TaskNotCancelableError", "UnsupportedOperationError"],
    }
