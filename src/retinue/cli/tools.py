"""`retinue tools`: the tools there are, and those an agent gets."""

import asyncio

import click

from retinue.cli.here import settings_here
from retinue.cli.opening import opened
from retinue.cli.output import json_option, print_json, table


@click.group(no_args_is_help=True)
def tools() -> None:
    """The tools there are, and those an agent gets."""


@tools.command("list")
@click.option("--agent", help="Only those that this agent gets, with delegation and completion.")
@json_option
def list_tools(*, agent: str | None, as_json: bool) -> None:
    """List tools: what each does and whether it changes anything."""
    found = asyncio.run(_list(agent))
    if as_json:
        print_json(found)
        return
    table(("TOOL", "EFFECT", "DESCRIPTION"), ((t["name"], t["effect"], t["description"]) for t in found))


async def _list(agent: str | None) -> list[dict[str, str]]:
    from retinue.app.tools import tools_of

    async with opened(settings_here(), drive=False) as app:
        specs = await tools_of(app, agent)
        return [
            {"name": s.name, "effect": s.effect, "description": s.description.strip().partition("\n")[0]} for s in specs
        ]
