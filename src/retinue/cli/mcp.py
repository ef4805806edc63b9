"""`retinue mcp`: the MCP servers of the settings, and whether one works."""

import asyncio
import os
from pathlib import Path

import click

from retinue.cli.here import settings_here
from retinue.cli.output import json_option, note, plain, print_json, table


@click.group(no_args_is_help=True)
def mcp() -> None:
    """MCP servers whose tools agents may use."""


@mcp.command("list")
@json_option
def list_servers(*, as_json: bool) -> None:
    """List the configured servers; none is started."""
    settings = settings_here()
    found = [
        {
            "name": name,
            "transport": "stdio" if server.command else "http",
            "where": " ".join((server.command, *server.args)) if server.command else server.url or "",
            "description": server.description,
        }
        for name, server in settings.mcp_servers.items()
    ]
    if as_json:
        print_json(found)
    elif found:
        table(("NAME", "TRANSPORT", "WHERE"), ((s["name"], s["transport"], s["where"]) for s in found))
    else:
        note("No MCP server is configured. Add one under mcp_servers in retinue.toml.")


@mcp.command("test")
@click.argument("name")
@json_option
def test_server(*, name: str, as_json: bool) -> None:
    """Start a server or reach it, sign in where it wants that, and list its tools."""
    from retinue.app.mcp import probe

    settings = settings_here()
    found = asyncio.run(probe(settings, os.environ, name, workspace=str(Path.cwd()), show=_show))
    if as_json:
        print_json(found)
        return
    click.echo(plain(f"{name}: {found.server}, ready in {found.seconds:.1f} s, sandbox: {found.sandbox}"))
    rows = ((tool.name, f"{tool.effect}, changed" if tool.changed else tool.effect, tool.about) for tool in found.tools)
    table(("TOOL", "EFFECT", "DESCRIPTION"), rows)


def _show(url: str) -> None:
    note(f"Sign in at {url}")
