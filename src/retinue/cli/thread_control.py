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
from retinue.cli.command import Told, command, wants_json
from retinue.cli.drive import ensure_driver
from retinue.cli.opening import opened
from retinue.cli.output import note
from retinue.cli.run import with_stdin
from retinue.schema.errors import RetinueError, UsageError
from retinue.schema.ids import DEFAULT_TENANT, ThreadId

if TYPE_CHECKING:
    from retinue.runtime.engine import Engine

_ACTS_WITHIN = 5.0
"""Seconds to wait until a thread has taken in what was said to it."""


@command()
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Every thread that was interrupted, in the background.")
@click.option("--detach", is_flag=True, help="Let it go on in the background.")
async def resume(*, id: str | None, everything: bool, detach: bool) -> Told | int:
    """Let the thread ID and its children go on, in the foreground like `run`."""
    if everything == (id is not None):
        raise UsageError("give the thread to resume, or --all")
    detach = detach or everything
    async with opened(drive=not detach) as app:
        store = app.engine.runtime.store
        if id is None:
            rows = await store.rows(DEFAULT_TENANT, status=("interrupted",), limit=10_000)
            threads = [row.id for row in rows]
        else:
            threads = [await find_thread(store, id)]
        for thread in threads:
            await resume_tree(app.engine, thread)
        if not detach:
            from retinue.cli.foreground import in_front

            return await in_front(app, threads[0], past=False, as_json=wants_json())
        ensure_driver(app.settings)
        return Told({"threads": threads}, "\n".join(threads))


def _control(name: str, help: str, act: "Callable[[Engine, ThreadId, str], Awaitable[object]]") -> click.Command:
    """A command that says one word to a thread and waits until it has stopped."""

    @command(name, help=help)
    @click.argument("id")
    @click.option("--reason", default="", help="Why, for the log.")
    async def control(*, id: str, reason: str) -> Told:
        return await _steer(id, lambda engine, thread: act(engine, thread, reason), stops=True)

    return control


async def _steer(id: str, act: "Callable[[Engine, ThreadId], Awaitable[object]]", *, stops: bool = False) -> Told:
    """Say something to a thread and wait until it was taken in; with `stops`, until it has stopped."""
    async with opened(drive=False) as app:
        store = app.engine.runtime.store
        thread = await find_thread(store, id)
        await act(app.engine, thread)
        ensure_driver(app.settings)
        row = await taken_in(store, thread, _ACTS_WITHIN, (lambda: act(app.engine, thread)) if stops else None)
        if row.inbox_head > row.drained:
            note("it has not been taken in yet; it will be when the process that drives the thread gets to it")
        status = row.listing.status
        return Told({"thread": thread, "status": status}, f"{thread} {status}")


interrupt = _control(
    "interrupt",
    "Stop the thread ID and its children at the next safe point.",
    lambda engine, thread, reason: engine.interrupt(thread, reason or "user"),
)
cancel = _control(
    "cancel",
    "End the run of the thread ID and of its children; the thread stays.",
    lambda engine, thread, reason: engine.cancel(thread, reason),
)
terminate = _control(
    "terminate",
    "Shut the thread ID and its children down; it takes nothing more.",
    lambda engine, thread, reason: engine.terminate(thread, reason),
)


@command()
@click.argument("id")
@click.argument("text")
@click.option("--silent", is_flag=True, help="Only context: it is no word of the user's.")
async def message(*, id: str, text: str, silent: bool) -> Told:
    """Say TEXT, or what is piped in for `-`, to the thread ID: it joins the run under way or starts one."""
    said = with_stdin(text) if text == "-" else text
    if not said.strip():
        raise UsageError("there is nothing to say", hint=f"retinue threads message {id} TEXT, or - to read it")
    return await _steer(id, lambda engine, thread: engine.send(thread, said, silent=silent))


@command()
@click.argument("id")
@click.option("--timeout", type=float, help="Seconds after which to give up (exit 1).")
async def wait(*, id: str, timeout: float | None) -> Told:
    """Wait until the run of the thread ID is over and print its result; exit codes as for `run`."""
    from retinue.app.conversation import result_text
    from retinue.cli.foreground import CODES

    async with opened(drive=True) as app:
        store = app.engine.runtime.store
        thread = await find_thread(store, id)
        row, state = await row_of(store, thread), await app.engine.state(thread)
        began = state.run.seq if state.run else 0
        after = row.head if row.inbox_head > row.drained else began
        try:
            async with asyncio.timeout(timeout):
                completion = await app.engine.wait(thread, after=after)
        except TimeoutError:
            status = (await row_of(store, thread)).listing.status
            raise RetinueError(
                f"thread {thread} is not done after {timeout:g} s: it is {status}",
                hint=f"retinue threads tree {thread[:8]} shows what it waits for",
            ) from None
        return Told(completion, result_text(completion.result), CODES[completion.status])


@command()
@click.argument("id")
@click.option("--at", type=click.IntRange(min=1), help="The last event to keep. [default: all]")
@click.option("--message", "text", help="Say this to the new thread; it runs in the background.")
@click.option("--model", help="Another model from here on.")
@click.option("--agent", help="Another agent, or the same one as it is now.")
@click.option("--prompt-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another prompt.")
async def fork(
    *, id: str, at: int | None, text: str | None, model: str | None, agent: str | None, prompt_file: Path | None
) -> Told:
    """Start another thread with the log of ID up to an event. Files of the workspace are not rewound."""
    async with opened(drive=False) as app:
        thread = await find_thread(app.engine.runtime.store, id)
        forked = await app.engine.fork(
            thread,
            at=at,
            message=text,
            model=model,
            prompt=prompt_file.read_text(encoding="utf-8") if prompt_file else None,
            pin=app.pin(agent) if agent else None,
        )
        ensure_driver(app.settings)
    return Told({"thread": forked}, forked)
