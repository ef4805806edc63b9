"""Holds a server until it is killed: `holder.py FOLDER MODE NOTES`; says `ready` when the server's tools are there."""

import asyncio
import sys
from pathlib import Path

from retinue.app.mcp import Mcp
from retinue.schema.agent import AgentDefinition, SandboxMode
from retinue.schema.ids import AgentId
from support.mcp import settings, stub


async def main(folder: Path, mode: SandboxMode, notes: str) -> None:
    server = stub("children", env={"STUB_NOTES": notes})
    mcp = Mcp(settings(folder, {"stub": server}, sandbox=mode), {})
    agent = AgentDefinition(id=AgentId("a"), name="a", mcp_servers=("stub",))
    tools = await mcp.tools(agent, str(folder / "workspace"), {})
    print("ready" if "mcp_stub_echo" in tools else sorted(tools), flush=True)
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1]), "auto" if sys.argv[2] == "auto" else "off", sys.argv[3]))
