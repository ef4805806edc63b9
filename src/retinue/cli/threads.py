"""`retinue threads`: what threads there are, what was said in them, and what they cost."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from typing import TypeVar

import click
import msgspec

from retinue.app import threads as app_threads
from retinue.app import views
from retinue.app.conversation import Entry, markdown
from retinue.cli.here import settings_here
from retinue.cli.main import LazyGroup
from retinue.cli.opening import database_here, opened
from retinue.cli.output import json_option, lines, plain, print_json, print_json_line, table
from retinue.cli.status import amount, duration, money
from retinue.ports.store import Store, ThreadRow
from retinue.schema.ids import DEFAULT_TENANT
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

_T = TypeVar("_T")
_STATUSES: tuple[ThreadStatus, ...] = tuple(TRANSITIONS)
_CUT = 12
"""Lines of an outcome that are shown unless all are asked for."""


def with_store(read: Callable[[Store], Coroutine[None, None, _T]]) -> _T:
    """Run `read` on the database of this folder."""

    async def main() -> _T:
        async with database_here() as database:
            return await read(database.store)

    return asyncio.run(main())


@click.command
@click.option("--status", type=click.Choice(_STATUSES), multiple=True, help="Only those with this status.")
@click.option("--agent", help="Only those of this agent.")
@click.option("--all", "everything", is_flag=True, help="Also the threads that other threads started.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@json_option
def list_threads(
    *, status: tuple[ThreadStatus, ...], agent: str | None, everything: bool, limit: int, as_json: bool
) -> None:
    """List the newest threads."""

    async def read(store: Store) -> list[ThreadRow]:
        found = await store.rows(DEFAULT_TENANT, status=status, agent=agent, roots_only=not everything, limit=limit)
        return list(found)

    found = [views.summary(row) for row in with_store(read)]
    if as_json:
        print_json(found)
        return
    table(("THREAD", "AGENT", "STATUS", "STEPS", "TOKENS", "COST", "UPDATED", "TITLE"), map(_row, found))


def _row(thread: views.Summary) -> tuple[str, ...]:
    status = f"waiting: {thread.waiting_for}" if thread.status == "waiting" else thread.status
    figures = (str(thread.steps), amount(thread.tokens), money(thread.cost), _when(thread.updated_at))
    return (thread.id[:8], thread.agent, status, *figures, thread.title or "")


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


@click.command
@click.argument("id")
@click.option("--raw", is_flag=True, help="The events of the log, one JSON object a line.")
@click.option("--full", is_flag=True, help="Every outcome whole.")
@json_option
def show(*, id: str, raw: bool, full: bool, as_json: bool) -> None:
    """Show the conversation of the thread ID: also what compaction took out of the model's sight, marked.

    The number before each entry is its place in the log, for `fork --at`.
    """
    exported = with_store(lambda store: _export(store, id))
    if raw:
        for event in exported.events:
            print_json_line(event)
    elif as_json:
        print_json({"thread": exported.thread, "conversation": exported.conversation})
    else:
        _show(exported, full=full)


async def _export(store: Store, id: str) -> views.Export:
    thread = await app_threads.find_thread(store, id)
    row = await app_threads.row_of(store, thread)
    return views.export(views.summary(row), await app_threads.read_log(store, thread))


def _show(exported: views.Export, *, full: bool) -> None:
    thread = exported.thread
    click.echo(plain(f"{thread.id}  {thread.agent}  {thread.title or ''}".rstrip()))
    click.echo(f"{'  '.join(_row(thread)[2:7])}  steps, tokens, cost")
    for entry in exported.conversation:
        click.echo()
        click.echo(plain(f"[{entry.seq}] {_heading(entry)}"))
        text = lines(entry.text).splitlines()
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
    ]
    parts.append(duration(entry.duration) if entry.duration else "")
    parts.append("(summarised for the model)" if entry.hidden else "(shortened for the model)" * entry.shortened)
    return " ".join(filter(None, parts))


@click.command
@click.argument("id")
@click.pass_context
def watch(ctx: click.Context, *, id: str) -> None:
    """Follow the thread ID until its run is over. Ctrl-C stops watching and leaves the thread alone."""
    from retinue.cli.foreground import in_front

    async def main() -> int:
        settings = settings_here()
        async with opened(settings, drive=False) as app:
            store = app.engine.runtime.store
            thread = await app_threads.find_thread(store, id)
            row = await app_threads.row_of(store, thread)
            running = row.listing.status in ("idle", "running", "waiting") or row.inbox_head > row.drained
            click.echo("  ".join(_row(views.summary(row))), err=True)
            return await in_front(app, settings, thread, past=not running, watches=True)

    ctx.exit(asyncio.run(main()))


@click.command
@click.argument("id")
@click.option("--watch", "keep", is_flag=True, help="Draw it again whenever it changes, until it is over.")
@json_option
def tree(*, id: str, keep: bool, as_json: bool) -> None:
    """Show the thread ID and everything below it; tokens and cost of a line include what is below."""
    with_store(lambda store: _tree(store, id, keep=keep, as_json=as_json))


async def _tree(store: Store, id: str, *, keep: bool, as_json: bool) -> None:
    thread = await app_threads.find_thread(store, id)
    drawn = ""
    while True:
        node = await app_threads.tree_of(store, thread, now=time.time())
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        text = "\n".join(line[:width] for line in tree_lines(node))
        if as_json:
            print_json(node)
        elif text != drawn:
            if drawn and sys.stdout.isatty():
                click.echo(f"\x1b[{len(drawn.splitlines())}A\x1b[J", nl=False)
            click.echo(text)
        drawn = text
        if not keep or node.status in ("completed", "failed", "terminated", "interrupted"):
            return
        await asyncio.sleep(0.5)


def tree_lines(node: views.Node, first: str = "", rest: str = "") -> Iterator[str]:
    agent = f"{node.agent}@{node.commit[:8]}" if node.commit else node.agent
    cap = f" +{money(node.reserved_cost)}" if node.reserved_cost else ""
    cap += f" of {money(node.caps.cost)}" if node.caps.cost is not None else ""
    parts = [agent if node.name == node.agent else f"{node.name}: {agent}", node.status, f"{node.steps} steps"]
    parts += [f"{amount(node.tokens)} tokens", money(node.cost) + cap, duration(node.seconds), node.id[:8]]
    parts += [f"“{node.said}”"] * bool(node.said) + [f"waits for {node.waits_for}"] * bool(node.waits_for)
    yield plain(first + "  ".join(parts))
    for child in node.children:
        last = child is node.children[-1]
        yield from tree_lines(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


@click.command
@click.argument("id")
@click.option("--format", "form", type=click.Choice(["json", "md"]), default="json", show_default=True)
def export(*, id: str, form: str) -> None:
    """Print the thread ID whole: JSON with every event, or its conversation as Markdown."""
    exported = with_store(lambda store: _export(store, id))
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(exported), indent=2))
        return
    thread = exported.thread
    click.echo(markdown(thread.title or f"{thread.agent} {thread.id[:8]}", exported.conversation), nl=False)
