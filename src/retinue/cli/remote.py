"""`retinue agents add-remote | sign-in`: agents of other servers, over A2A."""

import asyncio
import os
import re
from pathlib import Path

import click
import msgspec

from retinue.app.remotes import RemoteAgents
from retinue.cli.command import Told, command
from retinue.cli.here import catalog_here, settings_here
from retinue.cli.output import note
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import UsageError
from retinue.schema.ids import AgentId


@command("add-remote")
@click.argument("url")
@click.option("--name", help="What to call it here, partner/legal-reviewer; the card's name otherwise.")
@click.option("--token", metavar="$NAME", help="The variable whose value is sent as a bearer token.")
@click.option("--api-key", metavar="$NAME", help="The variable whose value is sent as X-API-Key.")
def add_remote(*, url: str, name: str | None, token: str | None, api_key: str | None) -> Told:
    """Add the agent whose card is at URL, as a file of your agents."""
    settings = settings_here()
    auth = _auth(token, api_key)
    asked = AgentDefinition(id=AgentId("remote"), name="remote", kind="remote", agent_card_url=url, auth=auth)

    async def read() -> tuple[str, str]:
        from retinue.remotes.a2a.connection import described

        remotes = RemoteAgents(settings, os.environ)
        try:
            card = await remotes.connections.card(asked)
        finally:
            await remotes.close()
        return card.name, described(card)

    said, description = asyncio.run(read())
    id = name or re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-") or "remote"
    path = settings.home / "agents" / f"{id}.md"
    if not path.resolve().is_relative_to((settings.home / "agents").resolve()):
        raise UsageError(f"{id!r} is no name for an agent")
    if path.exists():
        raise UsageError(f"{path} exists", hint="give another --name, or remove the file")
    _write(
        path, {"kind": "remote", "description": description, "agent_card_url": url, **({"auth": auth} if auth else {})}
    )
    note(f"next: an agent that may delegate can call {id}, or retinue run {id}")
    return Told({"id": id, "file": str(path)}, f"added {id} as {path}")


@command("sign-in")
@click.argument("name")
def sign_in(*, name: str) -> Told:
    """Sign in to a remote agent with OAuth2; the tokens are kept for the agents that call it."""
    settings = settings_here()
    definition = catalog_here(settings).resolve(name).definition

    async def go() -> None:
        remotes = RemoteAgents(settings, os.environ)
        try:
            await remotes.connections.sign_in(definition, lambda page: note(f"open this page: {page}"))
        finally:
            await remotes.close()

    asyncio.run(go())
    return Told({"id": name, "signed_in": True}, f"signed in to {name}")


def _auth(token: str | None, api_key: str | None) -> dict[str, str] | None:
    for value in (token, api_key):
        if value is not None and not value.startswith("$"):
            raise UsageError("a secret is named by its variable, $NAME, never written itself")
    if token is not None:
        return {"type": "http", "scheme": "Bearer", "token": token}
    return {"type": "apiKey", "key": api_key} if api_key is not None else None


def _write(path: Path, fields: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"---\n" + msgspec.yaml.encode(fields) + b"---\n")
