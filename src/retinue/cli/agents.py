"""`retinue agents`: what there is, where it comes from, and what a name means."""

import sys

import click
import msgspec

from retinue.app import agent_views
from retinue.app.folders import unread
from retinue.cli.command import Told, command, wants_json
from retinue.cli.here import catalog_here, settings_here
from retinue.cli.main import LazyGroup
from retinue.cli.output import count, error_json, note, plain, print_problems, safe, table
from retinue.registry.catalog import Catalog, Listed, Match
from retinue.schema.errors import RetinueError

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("retinue.cli.agents:list_agents", "All agents, also those that are broken or untrusted."),
    "show": ("retinue.cli.agents:show", "One agent: its definition, where it came from, its problems."),
    "resolve": ("retinue.cli.agents:resolve", "What a name means, and each place that was tried."),
    "validate": ("retinue.cli.agent_files:validate", "Check files and folders."),
    "fmt": ("retinue.cli.agent_files:fmt", "Rewrite frontmatter of any dialect in the canonical form."),
    "new": ("retinue.cli.agent_files:new", "Write a new agent to start from."),
    "schema": ("retinue.cli.agent_files:schema", "Print the JSON Schema of the frontmatter, for editors."),
    "diff": ("retinue.cli.agent_diff:diff", "How an agent differs between two revisions."),
    "trust": ("retinue.cli.agent_trust:trust", "Let agents of this project's folders run."),
    "create": ("retinue.cli.agent_records:create", "Add a custom agent to the database."),
    "update": ("retinue.cli.agent_records:update", "Change a custom agent of the database."),
    "add-remote": ("retinue.cli.remote:add_remote", "Add an agent of another server, over A2A."),
    "sign-in": ("retinue.cli.remote:sign_in", "Sign in to a remote agent with OAuth2."),
    "delete": ("retinue.cli.agent_records:delete", "Remove a custom agent from the database."),
}

agents = LazyGroup(COMMANDS, name="agents", help="List, show, check, write and trust agents.")


@command()
@click.option("--category", type=click.Choice(["primary", "subagent", "hidden", "all"]), help="Only this category.")
@click.option("--source", help="Only this source: its name (git:main-agents) or kind (project, user, builtin, …).")
@click.option("--all", "everything", is_flag=True, help="Also hidden agents and those that another one shadows.")
def list_agents(*, category: str | None, source: str | None, everything: bool) -> Told:
    """List the agents of every source."""
    settings = settings_here()
    catalog = catalog_here(settings)
    shown = agent_views.listed(catalog, category=category, source=source, everything=everything)

    def text() -> None:
        table(("AGENT", "CATEGORY", "SOURCE", "STATUS", "DESCRIPTION"), map(_row, shown))
        _summary(catalog, shown)
        if hint := unread(settings):
            note(hint)

    return Told([agent_views.agent(w.found, w.shadowed_by) for w in shown], text)


@command()
@click.argument("name")
@click.option("--raw", is_flag=True, help="Print the file as it is.")
def show(*, name: str, raw: bool) -> Told | None:
    """Show one agent: also one that is broken or untrusted, because looking is not running."""
    settings = settings_here()
    match = catalog_here(settings).match(name)
    if raw:
        from retinue.cli.agent_diff import raw_bytes

        raw_file = raw_bytes(settings, match.found)
        click.echo(safe(raw_file.decode("utf-8", "replace")) if sys.stdout.isatty() else raw_file, nl=False)
        return None
    facts = msgspec.structs.asdict(agent_views.agent(match.found))
    shadows = agent_views.shadows(match.shadows)
    return Told({**facts, "definition": match.found.definition, "shadows": shadows}, lambda: _show(match))


@command()
@click.argument("name")
def resolve(*, name: str) -> Told:
    """Say which agent NAME means, as S0's ResolvedAgent, and each place that was tried."""
    catalog = catalog_here(settings_here())
    try:
        resolved = catalog.resolve(name)
    except RetinueError as e:
        if not wants_json():
            for place in catalog.tried(name):
                note(f"  {place}")
            raise
        near: object = getattr(e, "near", ())
        return Told({**error_json(e), "near": near, "tried": catalog.tried(name)}, code=1)
    where = f"{resolved.repository} at {(resolved.commit or '')[:12]}" if resolved.repository else resolved.location
    text = [f"{resolved.address}: {resolved.origin} ({resolved.priority}), {where}"]
    text += [f"  {place}" for place in resolved.tried]
    return Told(agent_views.resolved_agent(resolved), "\n".join(map(plain, text)))


def _row(listed: Listed) -> tuple[str, ...]:
    found, definition = listed.found, listed.found.entry.definition
    status = f"shadowed by {listed.shadowed_by}" if listed.shadowed_by else found.status
    if definition is None:
        problem = next((p for p in found.entry.problems if p.severity == "error"), None)
        return (found.address, "-", found.snapshot.name, status, problem.message if problem else "")
    return (found.address, definition.category, found.snapshot.name, status, definition.description)


def _summary(catalog: Catalog, shown: list[Listed]) -> None:
    sources = {w.found.snapshot.name for w in shown}
    parts = [f"{count(len(shown), 'agent')} from {count(len(sources), 'source')}"]
    for status, word in (("error", "broken"), ("untrusted", "untrusted")):
        number = sum(w.found.status == status for w in shown)
        if number:
            parts.append(f"{number} {word}")
    note(", ".join(parts))
    if any(w.found.status == "untrusted" for w in shown):
        note("untrusted agents do not run: read them, then retinue agents trust")
    problems = sum(p.code != "no-frontmatter" for s in catalog.snapshots for p in s.problems)
    if problems:
        note(f"{count(problems, 'more problem')}: retinue doctor")
    for snapshot in catalog.snapshots:
        if snapshot.error is not None:
            note(f"{snapshot.name}: {'stale: ' if snapshot.stale else ''}{snapshot.error}")


def _show(match: Match) -> None:
    found, snapshot = match.found, match.found.snapshot
    definition = found.definition
    facts = [
        ("id", found.address),
        ("source", snapshot.name + (f" at {snapshot.commit[:12]}" if snapshot.commit else "")),
        ("file", found.entry.location),
        ("status", found.status),
        ("shadows", ", ".join(str(f) for f in match.shadows)),
    ]
    if definition is not None:
        values = msgspec.to_builtins(definition)
        skipped = {"id", "prompt", "documentation", "hash", "prompts"}
        facts += [(key, _value(value)) for key, value in values.items() if key not in skipped]
    width = max(len(key) for key, _ in facts)
    for key, value in facts:
        if value not in ("", "{}", "[]"):
            click.echo(f"{key.ljust(width)}  {plain(value)}")
    if definition is not None and definition.prompt:
        click.echo(f"\n{safe(definition.prompt)}")
    if found.entry.problems:
        click.echo()
        print_problems(found.entry.problems)


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
