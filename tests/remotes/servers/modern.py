"""A server written with the SDK: protocol 2026-07-28, over its pipes or, with a port, over HTTP."""

import base64
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.types import ImageContent
from pydantic import BaseModel

server = MCPServer("modern")


class Choice(BaseModel):
    colour: str
    size: int


async def chosen() -> Elicit[Choice]:
    return Elicit("Which one?", Choice)


@server.tool()
async def choose(choice: Annotated[Choice, Resolve(chosen)]) -> str:
    """Asks which one."""
    return f"{choice.colour} {choice.size}"


@server.tool()
async def steps(ctx: Context) -> str:
    """Does it in steps."""
    for number in (1, 2):
        await ctx.report_progress(number, 2, f"step {number}")
    return "done"


@server.tool()
def picture() -> ImageContent:
    """A picture."""
    return ImageContent(data=base64.b64encode(b"png").decode(), mime_type="image/png")


@server.tool()
async def grow(ctx: Context) -> str:
    """One more tool."""

    def late() -> str:
        return "late ran"

    server.add_tool(late, name="late", description="Came later.")
    await ctx.notify_tools_changed()
    return "grown"


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
