"""`retinue threads`, the part that steers: resume, interrupt, cancel, terminate, message, wait, fork.

What is said to a thread is durable when a command returns; a process in the
background acts on it when no other one drives.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retinue.app.threads import find_thread, resume_tree, row_of, taken_in
from retinue.cli.drive import ensure_driver
from retinue.cli.here import settings_here
from retinue.cli.opening import opened
from retinue.cli.output import json_option, note, print_json
from retinue.cli.run import with_stdin
from retinue.schema.errors import RetinueError, UsageError
from retinue.schema.ids import DEFAULT_TENANT, ThreadId

if TYPE_CHECKING:
    from retinue.app.retinue import Retinue

_ACTS_WITHIN = 5.0
"""Seconds to wait until a thread has taken in what was said to it."""


@click.command
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Every thread that was interrupted, in the background.")
@click.option("--detach", is_flag=True, help="Let it go on in the background.")
@json_option
@click.pass_context
def resume(ctx: click.Context, *, id: str | None, everything: bool, detach: bool, as_json: bool) -> None:
    """Let the thread ID and its children go on, in the foreground like `run`."""
    if everything == (id is not None):
        raise UsageError("give the thread to resume, or --all")
    settings = settings_here()

    async def main() -> int:
        async with opened(settings, drive=not (everything or detach)) as app:
            engine = app.engine
            if id is None:
                rows = await engine.runtime.store.rows(DEFAULT_TENANT, status=("interrupted",), limit=10_000)
                threads = [row.id for row in rows]
            else:
                threads = [await find_thread(engine.runtime.store, id)]
            if not everything and not detach:
                from retinue.cli.foreground import in_front

                await resume_tree(engine, threads[0])
                return await in_front(app, settings, threads[0], past=False, as_json=as_json)
            for thread in threads:
                await resume_tree(engine, thread)
            ensure_driver(settings)
            _tell({"threads": threads}, "\n".join(threads), as_json=as_json)
            return 0

    ctx.exit(asyncio.run(main()))


def _tell(value: object, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    elif text:
        click.echo(text)


def _control(name: str, help: str, act: Callable[["Retinue", ThreadId, str], Awaitable[None]]) -> click.Command:
    """A command that says one word to a thread and waits until it was taken in."""

    @click.command(name, help=help)
    @click.argument("id")
    @click.option("--reason", default="", help="Why, for the log.")
    @json_option
    def command(*, id: str, reason: str, as_json: bool) -> None:
        status = asyncio.run(_steer(id, lambda app, thread: act(app, thread, reason), stops=True))
        _tell(status, f"{status['thread']} {status['status']}", as_json=as_json)

    return command


async def _steer(
    id: str, act: "Callable[[Retinue, ThreadId], Awaitable[object]]", *, stops: bool = False
) -> dict[str, str]:
    """Say something to a thread and wait until it was taken in; with `stops`, until it has stopped."""
    settings = settings_here()
    async with opened(settings, drive=False) as app:
        store = app.engine.runtime.store
        thread = await find_thread(store, id)
        await act(app, thread)
        ensure_driver(settings)
        row = await taken_in(store, thread, _ACTS_WITHIN, (lambda: act(app, thread)) if stops else None)
        if row.inbox_head > row.drained:
            note("it has not been taken in yet; it will be when the process that drives the thread gets to it")
        return {"thread": thread, "status": row.listing.status}


async def _interrupt(app: "Retinue", thread: ThreadId, reason: str) -> None:
    await app.engine.interrupt(thread, reason or "user")


async def _cancel(app: "Retinue", thread: ThreadId, reason: str) -> None:
    await app.engine.cancel(thread, reason)


async def _terminate(app: "Retinue", thread: ThreadId, reason: str) -> None:
    await app.engine.terminate(thread, reason)


interrupt = _control("interrupt", "Stop the thread ID and its children at the next safe point.", _interrupt)
cancel = _control("cancel", "End the run of the thread ID and of its children; the thread stays.", _cancel)
terminate = _control("terminate", "Shut the thread ID and its children down; it takes nothing more.", _terminate)


@click.command
@click.argument("id")
@click.argument("text")
@click.option("--silent", is_flag=True, help="Only context: it is no word of the user's.")
@json_option
def message(*, id: str, text: str, silent: bool, as_json: bool) -> None:
    """Say TEXT, or what is piped in for `-`, to the thread ID: it joins the run under way or starts one."""
    said = with_stdin(text) if text == "-" else text
    status = asyncio.run(_steer(id, lambda app, thread: app.engine.send(thread, said, silent=silent)))
    _tell(status, f"{status['thread']} {status['status']}", as_json=as_json)


@click.command
@click.argument("id")
@click.option("--timeout", type=float, help="Seconds after which to give up (exit 1).")
@json_option
@click.pass_context
def wait(ctx: click.Context, *, id: str, timeout: float | None, as_json: bool) -> None:
    """Wait until the run of the thread ID is over and print its result; exit codes as for `run`."""
    from retinue.app.conversation import result_text
    from retinue.cli.foreground import CODES

    async def main() -> int:
        async with opened(settings_here(), drive=True) as app:
            store = app.engine.runtime.store
            thread = await find_thread(store, id)
            row, state = await row_of(store, thread), await app.engine.state(thread)
            began = state.run.seq if state.run else 0
            after = row.head if row.inbox_head > row.drained else began
            try:
                async with asyncio.timeout(timeout):
                    completion = await app.engine.wait(thread, after=after)
            except TimeoutError:
                raise RetinueError(f"thread {thread} is not done after {timeout:g} s") from None
            _tell(completion, result_text(completion.result), as_json=as_json)
            return CODES[completion.status]

    ctx.exit(asyncio.run(main()))


@click.command
@click.argument("id")
@click.option("--at", type=click.IntRange(min=1), help="The last event to keep. [default: all]")
@click.option("--message", "text", help="Say this to the new thread; it runs in the background.")
@click.option("--model", help="Another model from here on.")
@click.option("--agent", help="Another agent, or the same one as it is now.")
@click.option("--prompt-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another prompt.")
@json_option
def fork(
    *,
    id: str,
    at: int | None,
    text: str | None,
    model: str | None,
    agent: str | None,
    prompt_file: Path | None,
    as_json: bool,
) -> None:
    """Start another thread with the log of ID up to an event. Files of the workspace are not rewound."""
    settings = settings_here()

    async def main() -> ThreadId:
        async with opened(settings, drive=False) as app:
            thread = await find_thread(app.engine.runtime.store, id)
            forked = await app.engine.fork(
                thread,
                at=at,
                message=text,
                model=model,
                prompt=prompt_file.read_text(encoding="utf-8") if prompt_file else None,
                pin=app.pin(agent) if agent else None,
            )
            ensure_driver(settings)
            return forked

    forked = asyncio.run(main())
    _tell({"thread": forked}, forked, as_json=as_json)
