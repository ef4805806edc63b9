"""`retinue agents`: what there is, where it comes from, and what a name means."""

import sys
from collections.abc import Iterable

import click
import msgspec

from retinue.cli.here import catalog_here, settings_here
from retinue.cli.main import LazyGroup
from retinue.cli.output import count, json_option, lines, note, plain, print_json, print_problems, problem_json, table
from retinue.registry.catalog import Catalog, Found, Listed, Match, Place, Resolved
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
    "delete": ("retinue.cli.agent_records:delete", "Remove a custom agent from the database."),
}

agents = LazyGroup(COMMANDS, name="agents", help="List, show, check, write and trust agents.")


@click.command
@click.option("--category", type=click.Choice(["primary", "subagent", "hidden", "all"]), help="Only this category.")
@click.option("--source", help="Only this source: its name (git:main-agents) or kind (project, user, builtin, …).")
@click.option("--all", "everything", is_flag=True, help="Also hidden agents and those that another one shadows.")
@json_option
def list_agents(*, category: str | None, source: str | None, everything: bool, as_json: bool) -> None:
    """List the agents of every source."""
    catalog = catalog_here(settings_here())
    shown = [w for w in catalog.entries() if _wanted(w, category, source, everything=everything)]
    if as_json:
        print_json([_listed_json(w) for w in shown])
        return
    table(("AGENT", "CATEGORY", "SOURCE", "STATUS", "DESCRIPTION"), (_row(w) for w in shown))
    _summary(catalog, shown)


@click.command
@click.argument("name")
@click.option("--raw", is_flag=True, help="Print the file as it is.")
@json_option
def show(*, name: str, raw: bool, as_json: bool) -> None:
    """Show one agent: also one that is broken or untrusted, because looking is not running."""
    settings = settings_here()
    match = catalog_here(settings).match(name)
    if raw:
        from retinue.cli.agent_diff import raw_bytes

        raw_file = raw_bytes(settings, match.found)
        click.echo(lines(raw_file.decode("utf-8", "replace")) if sys.stdout.isatty() else raw_file, nl=False)
        return
    if as_json:
        print_json({**_found_json(match.found), "definition": match.found.definition, "shadows": _shadows(match)})
        return
    _show(match)


@click.command
@click.argument("name")
@json_option
@click.pass_context
def resolve(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Say which agent NAME means, as S0's ResolvedAgent, and each place that was tried."""
    catalog = catalog_here(settings_here())
    try:
        resolved = catalog.resolve(name)
    except RetinueError as e:
        if not as_json:
            for place in catalog.tried(name):
                note(f"  {place}")
            raise
        near: object = getattr(e, "near", ())
        tried = [_place_json(p) for p in catalog.tried(name)]
        print_json({"error": e.code, "message": e.message, "hint": e.hint, "near": near, "tried": tried})
        ctx.exit(1)
    if as_json:
        print_json(_resolved_json(resolved))
        return
    where = f"{resolved.repository} at {(resolved.commit or '')[:12]}" if resolved.repository else resolved.location
    click.echo(f"{plain(resolved.address)}: {resolved.origin} ({resolved.priority}), {plain(where)}")
    for place in resolved.tried:
        click.echo(f"  {plain(str(place))}")


def _wanted(listed: Listed, category: str | None, source: str | None, *, everything: bool) -> bool:
    found, definition = listed.found, listed.found.entry.definition
    if source is not None and source not in (found.snapshot.name, found.snapshot.kind):
        return False
    if category is not None:
        return definition is not None and definition.category == category and (everything or not listed.shadowed_by)
    if everything:
        return True
    is_hidden = definition is not None and (definition.hidden or definition.category == "hidden")
    return not is_hidden and listed.shadowed_by is None


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
        click.echo(f"\n{lines(definition.prompt)}")
    if found.entry.problems:
        click.echo()
        print_problems(found.entry.problems)


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _found_json(found: Found) -> dict[str, object]:
    definition, snapshot = found.entry.definition, found.snapshot
    return {
        "id": found.address,
        "name": definition.name if definition else None,
        "description": definition.description if definition else None,
        "category": definition.category if definition else None,
        "kind": definition.kind if definition else None,
        "hidden": definition.hidden if definition else None,
        "source": snapshot.kind,
        "origin": snapshot.name,
        "repository": snapshot.repository,
        "commit": snapshot.commit,
        "priority": "external" if found.is_remote else snapshot.priority,
        "location": found.entry.location,
        "hash": found.entry.hash,
        "status": found.status,
        "trusted": found.entry.trusted,
        "problems": [problem_json(p) for p in found.entry.problems],
    }


def _listed_json(listed: Listed) -> dict[str, object]:
    return {**_found_json(listed.found), "shadowed_by": listed.shadowed_by}


def _shadows(match: Match | Resolved) -> Iterable[dict[str, str]]:
    return [
        {"id": f.address, "source": f.snapshot.kind, "origin": f.snapshot.name, "location": f.entry.location}
        for f in match.shadows
    ]


def _place_json(place: Place) -> dict[str, str]:
    return {
        "source": place.source,
        "looked_for": place.looked_for,
        "outcome": place.outcome,
        "location": place.location,
    }


def _resolved_json(resolved: Resolved) -> dict[str, object]:
    return {
        "agent": resolved.definition,
        "id": resolved.address,
        "source": resolved.source,
        "origin": resolved.origin,
        "repository": resolved.repository,
        "commit": resolved.commit,
        "isNamespaced": resolved.is_namespaced,
        "priority": resolved.priority,
        "location": resolved.location,
        "shadows": _shadows(resolved),
        "tried": [_place_json(p) for p in resolved.tried],
    }
