"""`retinue answer`: every question that waits for a person, in one place, and its answer."""

import asyncio
import sys
from pathlib import Path

import click

from retinue.app import questions
from retinue.app.questions import OpenQuestion, Reply
from retinue.app.threads import row_of
from retinue.cli.ask import how_to_answer, parse_reply, show_waiting
from retinue.cli.drive import ensure_driver
from retinue.cli.here import settings_here
from retinue.cli.opening import opened
from retinue.cli.output import json_option, note, print_json
from retinue.cli.status import Screen
from retinue.schema.errors import NotFound, UsageError
from retinue.schema.ids import ThreadId
from retinue.schema.thread import ThreadStatus


@click.command
@click.argument("id", required=False)
@click.argument("text", required=False, metavar="[ANSWER]")
@click.option("--once", is_flag=True, help="Allow this call.")
@click.option("--thread", "in_thread", is_flag=True, help="Allow it, and the same again in this thread.")
@click.option("--pattern", metavar="P", help="Allow it, and what matches P in this thread; with --always, everywhere.")
@click.option("--always", is_flag=True, help="Allow it, and the same again; saved, see `retinue permissions list`.")
@click.option("--deny", metavar="WHY", help="Refuse it; the agent is told why.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Answer with a file.")
@json_option
def answer(
    *,
    id: str | None,
    text: str | None,
    once: bool,
    in_thread: bool,
    pattern: str | None,
    always: bool,
    deny: str | None,
    file: Path | None,
    as_json: bool,
) -> None:
    """List the questions that wait for a person, or answer the question ID.

    Answering one lets only that call go on; the rest of its tree keeps waiting.
    """
    if id is None:
        _list(as_json=as_json)
        return
    given = (
        once,
        in_thread or bool(pattern and not always),
        always,
        deny is not None,
        text is not None,
        file is not None,
    )
    if sum(given) > 1:
        raise UsageError("give one answer")
    reply = None
    if deny is not None:
        reply = Reply(scope="deny", answer=deny)
    elif always:
        reply = Reply(scope="always", pattern=pattern)
    elif in_thread or pattern is not None:
        reply = Reply(scope="thread", pattern=pattern)
    elif once:
        reply = Reply(scope="once")
    elif file is not None:
        reply = Reply(file=file)
    thread, status = asyncio.run(_answer(id, reply, text))
    if as_json:
        print_json({"thread": thread})
    elif status == "interrupted":
        click.echo(f"answered; the thread is interrupted, to go on: retinue threads resume {thread[:8]}")
    else:
        click.echo(f"answered; thread {thread[:8]} goes on")
        note(f"to follow it: retinue threads watch {thread[:8]}")


def _list(*, as_json: bool) -> None:
    async def read() -> list[OpenQuestion]:
        async with opened(settings_here(), drive=False) as app:
            return await questions.open_questions(app)

    found = asyncio.run(read())
    if as_json:
        print_json(found)
        return
    if not found:
        note("nobody waits for an answer")
    screen = Screen(err=sys.stdout, draws=False)
    for question in found:
        show_waiting(screen, question)


async def _answer(prefix: str, reply: Reply | None, text: str | None) -> tuple[ThreadId, ThreadStatus]:
    settings = settings_here()
    async with opened(settings, drive=False) as app:
        found = [q for q in await questions.open_questions(app) if q.id.startswith(prefix.lower())]
        if not found:
            raise NotFound(f"there is no open question {prefix!r}", hint="`retinue answer` lists those that are open")
        if len(found) > 1:
            raise UsageError(f"{prefix!r} may be {' or '.join(q.id for q in found)}", hint="write more of the id")
        if reply is None and text is None:
            raise UsageError("give an answer", hint=how_to_answer(found[0]))
        if reply is None:
            reply = parse_reply(found[0], text or "")
        thread = await questions.answer(app, found[0].id, reply)
        row = await row_of(app.engine.runtime.store, thread)
    ensure_driver(settings)
    return thread, row.listing.status
