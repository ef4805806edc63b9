"""An app whose agent calls a server that asks a person: `asking.py FOLDER`, to be killed while it waits."""

import asyncio
import sys
from pathlib import Path

from retinue.models.script import CallTool, Say
from retinue.testing.harness import scripted_app
from support.agents import agent
from support.mcp import settings, stub

SCRIPT = [Say(calls=(CallTool("mcp_stub_ask"),)), Say(text="It said: {{last_outcome}}")]
ASKER = agent("asker", "mcp_*", mcp_servers=("stub",))


async def main(folder: Path) -> None:
    server = stub("children", env={"STUB_NOTES": str(folder / "notes")})
    async with scripted_app(folder, SCRIPT, agents=[ASKER], settings=settings(folder, {"stub": server})) as app:
        print(await app.start("asker", "go"), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
