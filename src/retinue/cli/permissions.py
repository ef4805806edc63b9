"""`retinue permissions`: what people have granted, why a call is allowed or not, and rules worth writing."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from retinue.cli.command import Command, Told
from retinue.cli.here import settings_here
from retinue.cli.opening import database_here, opened
from retinue.cli.output import json_option, note, plain, print_json, print_json_line, table
from retinue.ports.memory import Grant
from retinue.schema.errors import NotFound, UsageError
from retinue.schema.ids import DEFAULT_TENANT

if TYPE_CHECKING:
    from retinue.app.retinue import Retinue
    from retinue.schema.agent import AgentDefinition
    from retinue.schema.permission import Rule


@click.group(no_args_is_help=True)
def permissions() -> None:
    """What was granted, and why a call is allowed or not."""


@permissions.command("list")
@json_option
def list_grants(*, as_json: bool) -> None:
    """List the grants that answers have left behind."""

    async def read() -> list[Grant]:
        async with database_here() as database:
            return list(await database.grants.all(DEFAULT_TENANT))

    grants = asyncio.run(read())
    if as_json:
        print_json(grants)
        return
    table(("NUMBER", "FOR", "SINCE", "TOOL", "PATTERN"), map(_row, grants))


def _row(grant: Grant) -> tuple[str, ...]:
    since = datetime.fromtimestamp(grant.created_at).astimezone().strftime("%Y-%m-%d %H:%M")
    what = f"{grant.pattern} (this exact call)" if grant.exact else grant.pattern
    return (str(grant.number), grant.thread[:8] if grant.thread else "always", since, grant.tool, what)


@permissions.command(cls=Command)
@click.argument("number", type=int)
def revoke(*, number: int) -> Told:
    """Take the grant NUMBER back; such calls are asked again."""

    async def act() -> bool:
        async with database_here() as database:
            return await database.grants.revoke(DEFAULT_TENANT, number)

    if not asyncio.run(act()):
        raise NotFound(f"there is no grant {number}", hint="`retinue permissions list` shows them")
    return Told({"number": number, "revoked": True})


@permissions.command
@click.argument("agent")
@click.argument("tool")
@click.argument("argument")
@json_option
def explain(*, agent: str, tool: str, argument: str, as_json: bool) -> None:
    """Say whether AGENT may use TOOL on ARGUMENT here, which rule decides, and for bash what it makes of each command.

    AGENT may be a path to a file. With ARGUMENT `-`, one JSON string is read from each line of standard input and
    one JSON object is printed for each.
    """
    from retinue.app.permissions import authority_here, decide
    from retinue.policy.explain import explain as explained
    from retinue.policy.explain import lines

    async def main() -> None:
        async with opened(settings_here(), drive=False) as app:
            definition = _definition(app, agent)
            authority = await authority_here(app, definition)
            if argument == "-":
                for text in _arguments():
                    print_json_line(explained(decide(authority, definition, tool, text)))
                return
            explanation = explained(decide(authority, definition, tool, argument))
            if as_json:
                print_json(explanation)
                return
            for line in lines(explanation):
                click.echo(plain(line))

    asyncio.run(main())


def _definition(app: "Retinue", agent: str) -> "AgentDefinition":
    """By name; what ends like a file is one. Looking at a file's rules runs nothing, so it need not be trusted."""
    if agent.endswith(".md") and Path(agent).is_file():
        from retinue.app.load import load_agent

        return load_agent(agent)
    return app.pin(agent).definition


def _arguments() -> Iterator[str]:
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            yield msgspec.json.decode(line, type=str)
        except msgspec.MsgspecError as e:
            raise UsageError(f"line {number} of standard input is no JSON string: {e}") from None


@permissions.command
@click.argument("agent", required=False)
@json_option
def suggest(*, agent: str | None, as_json: bool) -> None:
    """Print the smallest rules that would have answered what was approved, for each agent or one."""
    from retinue.app.permissions import approved
    from retinue.policy.suggest import suggest as rules_for

    async def read() -> "dict[str, tuple[Rule, ...]]":
        async with opened(settings_here(), drive=False) as app:
            wanted = app.pin(agent).definition.id if agent else None
            return {id: rules_for(calls) for id, calls in (await approved(app)).items() if wanted in (None, id)}

    found = {id: rules for id, rules in asyncio.run(read()).items() if rules}
    if as_json:
        print_json(found)
        return
    if not found:
        note("nothing was approved that a rule could have answered")
    for id, rules in found.items():
        click.echo(plain(f"# {id}: add to the frontmatter"))
        click.echo("permissions:\n  rules:")
        for rule in rules:
            pattern = msgspec.json.encode(rule.pattern).decode()
            click.echo(plain(f"    - {{tool: {rule.tool}, pattern: {pattern}, verdict: {rule.verdict}}}"))
