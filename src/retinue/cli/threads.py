"""`retinue threads`: what threads there are, what was said in them, and what they cost."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import click

from retinue.app import threads as app_threads
from retinue.app import views
from retinue.app.conversation import Entry, markdown
from retinue.cli.activity import WAITS_FOR, Activity
from retinue.cli.command import Told, command, wants_json
from retinue.cli.main import LazyGroup
from retinue.cli.opening import database_here, opened
from retinue.cli.output import (
    amount,
    count,
    duration,
    money,
    plain,
    print_json,
    print_json_line,
    safe,
    table,
    terminal_size,
    when,
)
from retinue.ports.store import Store
from retinue.schema.events.union import decode
from retinue.schema.ids import DEFAULT_TENANT, ThreadId
from retinue.schema.thread import TRANSITIONS, ThreadStatus

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("retinue.cli.threads:list_threads", "The newest threads."),
    "show": ("retinue.cli.threads:show", "One thread's conversation, with every call and its outcome."),
    "watch": ("retinue.cli.threads:watch", "Follow a thread as it runs, without touching it."),
    "tree": ("retinue.cli.threads:tree", "A thread and its children: status, steps, tokens, cost, time."),
    "export": ("retinue.cli.threads:export", "A thread as JSON or Markdown."),
    "resume": ("retinue.cli.thread_control:resume", "Let an interrupted thread go on."),
    "interrupt": ("retinue.cli.thread_control:interrupt", "Stop a thread at the next safe point; it can be resumed."),
    "cancel": ("retinue.cli.thread_control:cancel", "End a thread's run; the thread stays."),
    "terminate": ("retinue.cli.thread_control:terminate", "Shut a thread down for good."),
    "message": ("retinue.cli.thread_control:message", "Say something to a thread."),
    "wait": ("retinue.cli.thread_control:wait", "Wait until a thread's run is over."),
    "fork": ("retinue.cli.thread_control:fork", "Start another thread from a point of this one."),
}

threads = LazyGroup(COMMANDS, name="threads", help="List, show, follow and steer threads.")

_STATUSES: tuple[ThreadStatus, ...] = tuple(TRANSITIONS)
_CUT = 12
"""Lines of an outcome that are shown unless all are asked for."""
_TAIL = 60
"""Events that are enough to tell what a thread does now."""


@command()
@click.option("--status", type=click.Choice(_STATUSES), multiple=True, help="Only those with this status.")
@click.option("--agent", help="Only those of this agent.")
@click.option("--all", "everything", is_flag=True, help="Also the threads that other threads started.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
async def list_threads(*, status: tuple[ThreadStatus, ...], agent: str | None, everything: bool, limit: int) -> Told:
    """List the newest threads."""
    async with database_here() as database:
        rows = await database.store.rows(
            DEFAULT_TENANT, status=status, agent=agent, roots_only=not everything, limit=limit
        )
    found = [views.summary(row) for row in rows]
    headers = ("THREAD", "AGENT", "STATUS", "STEPS", "TOKENS", "COST", "UPDATED", "TITLE")
    return Told(found, lambda: table(headers, map(_row, found)))


def _row(thread: views.Summary) -> tuple[str, ...]:
    status = f"waiting: {thread.waiting_for}" if thread.status == "waiting" else thread.status
    figures = (str(thread.steps), amount(thread.tokens), money(thread.cost), when(thread.updated_at))
    return (thread.id[:8], thread.agent, status, *figures, thread.title or "")


@command()
@click.argument("id")
@click.option("--raw", is_flag=True, help="The events of the log, one JSON object a line.")
@click.option("--full", is_flag=True, help="Every outcome whole.")
async def show(*, id: str, raw: bool, full: bool) -> Told | None:
    """Show the conversation of the thread ID: also what compaction took out of the model's sight, marked.

    The number before each entry is its place in the log, for `fork --at`.
    """
    exported = await _export(id)
    if raw:
        for event in exported.events:
            print_json_line(event)
        return None
    value = {"thread": exported.thread, "conversation": exported.conversation}
    return Told(value, lambda: _show(exported, full=full))


async def _export(id: str) -> views.Export:
    async with database_here() as database:
        thread = await app_threads.find_thread(database.store, id)
        row = await app_threads.row_of(database.store, thread)
        return views.export(views.summary(row), await app_threads.read_log(database.store, thread))


def _show(exported: views.Export, *, full: bool) -> None:
    thread = exported.thread
    click.echo(plain(f"{thread.id}  {thread.agent}  {thread.title or ''}".rstrip()))
    click.echo(f"{'  '.join(_row(thread)[2:7])}  steps, tokens, cost")
    for entry in exported.conversation:
        click.echo()
        click.echo(plain(f"[{entry.seq}] {_heading(entry)}"))
        text = safe(entry.text).splitlines()
        cut = len(text) if full or entry.kind != "outcome" else _CUT
        for line in text[:cut]:
            click.echo(f"    {line}")
        if len(text) > cut:
            click.echo(f"    … {len(text) - cut} more lines (--full)")


def _heading(entry: Entry) -> str:
    parts = [
        entry.who,
        entry.kind if entry.kind not in ("message", "text") else "",
        entry.tool or "",
        entry.status or "",
        duration(entry.duration) if entry.duration else "",
        "(summarised for the model)" if entry.hidden else "(shortened for the model)" * entry.shortened,
    ]
    return " ".join(filter(None, parts))


@command()
@click.argument("id")
async def watch(*, id: str) -> int:
    """Follow the thread ID until its run is over. Ctrl-C stops watching and leaves the thread alone.

    With --json, every event of it and of its children is one line of JSON.
    """
    from retinue.cli.foreground import in_front, stream_json

    async with opened(drive=False) as app:
        store = app.engine.runtime.store
        thread = await app_threads.find_thread(store, id)
        if wants_json():
            return await stream_json(app, thread)
        row = await app_threads.row_of(store, thread)
        running = row.listing.status in ("idle", "running", "waiting") or row.inbox_head > row.drained
        click.echo("  ".join(_row(views.summary(row))), err=True)
        return await in_front(app, thread, past=not running, watches=True)


@command()
@click.argument("id")
@click.option("--watch", "keep", is_flag=True, help="Draw it again whenever it changes, until it is over.")
async def tree(*, id: str, keep: bool) -> Told | None:
    """Show the thread ID and everything below it; tokens and cost of a line include what is below."""
    async with database_here() as database:
        thread = await app_threads.find_thread(database.store, id)
        drawn = 0
        while True:
            node = await app_threads.tree_of(database.store, thread, now=time.time())
            doing = await _doing(database.store, node)
            terminal = sys.stdout.isatty()
            shown = list(tree_lines(node, doing, width=terminal_size(sys.stdout.fileno)[0] if terminal else None))
            if not keep:
                return Told(node, "\n".join(shown))
            _draw(node, shown, over=drawn if terminal else 0)
            drawn = len(shown)
            if node.status in ("completed", "failed", "terminated", "interrupted"):
                return None
            await asyncio.sleep(0.5)


def _draw(node: views.Node, shown: list[str], *, over: int) -> None:
    if wants_json():
        print_json_line(node)
        return
    click.echo(f"\x1b[{over}A\x1b[J" * bool(over), nl=False)
    click.echo("\n".join(shown))


async def _doing(store: Store, node: views.Node) -> dict[ThreadId, str]:
    """What the threads of a tree that are at work do now."""
    found: dict[ThreadId, str] = {}
    if node.status == "running":
        row = await app_threads.row_of(store, node.id)
        activity = Activity()
        for event in await store.events(node.id, after=max(row.head - _TAIL, 0), limit=_TAIL):
            activity.take(decode(event.data))
        found[node.id] = activity.text
    for child in node.children:
        found |= await _doing(store, child)
    return found


def tree_lines(
    node: views.Node,
    doing: Mapping[ThreadId, str] = MappingProxyType({}),
    *,
    width: int | None = None,
    first: str = "",
    rest: str = "",
) -> Iterator[str]:
    """A line for each thread; what it does follows, below it where the terminal is too narrow."""
    agent = f"{node.agent}@{node.commit[:8]}" if node.commit else node.agent
    cap = f" +{money(node.reserved_cost)}" if node.reserved_cost else ""
    cap += f" of {money(node.caps.cost)}" if node.caps.cost is not None else ""
    parts = [agent if node.name == node.agent else f"{node.name}: {agent}", node.status, count(node.steps, "step")]
    parts += [f"{amount(node.tokens)} tokens", money(node.cost) + cap, duration(node.seconds), node.id[:8]]
    now = [f"“{node.said}”" if node.said else "", _waits(node), doing.get(node.id, "")]
    line, more = plain(first + "  ".join(parts)), plain("  ".join(filter(None, now)))
    whole = f"{line}  {more}".rstrip()
    if width is None or len(whole) <= width:
        yield whole
    else:
        below = f"{rest}{'│' if node.children else ' '}  {more}".rstrip(" │")
        yield from (text if len(text) <= width else text[: width - 1] + "…" for text in (line, below) if text)
    for child in node.children:
        last = child is node.children[-1]
        yield from tree_lines(
            child,
            doing,
            width=width,
            first=rest + ("└─ " if last else "├─ "),
            rest=rest + ("   " if last else "│  "),
        )


def _waits(node: views.Node) -> str:
    if node.waits_for is None:
        return ""
    return f"waits for {WAITS_FOR[node.waits_for]}" if node.waits_for in WAITS_FOR else f"asks: {node.waits_for}"


@command()
@click.argument("id")
@click.option("--format", "form", type=click.Choice(["json", "md"]), default="json", show_default=True)
async def export(*, id: str, form: str) -> Told:
    """Print the thread ID whole: JSON with every event, or its conversation as Markdown."""
    exported = await _export(id)
    if form == "json":
        return Told(exported, lambda: print_json(exported))
    thread = exported.thread
    text = markdown(thread.title or f"{thread.agent} {thread.id[:8]}", exported.conversation)
    return Told(exported, lambda: click.echo(text, nl=False))
