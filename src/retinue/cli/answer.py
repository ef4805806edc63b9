"""`retinue answer`: every question that waits for a person, in one place, and its answer."""

import sys
from pathlib import Path

import click

from retinue.app import questions
from retinue.app.questions import OpenQuestion, Reply
from retinue.app.threads import row_of
from retinue.cli.ask import how_to_answer, parse_reply, show_waiting
from retinue.cli.command import Told, command
from retinue.cli.drive import ensure_driver
from retinue.cli.opening import opened
from retinue.cli.output import note
from retinue.cli.status import Screen
from retinue.schema.errors import NotFound, UsageError


@command()
@click.argument("id", required=False)
@click.argument("text", required=False, metavar="[ANSWER]")
@click.option("--once", is_flag=True, help="Allow this call.")
@click.option("--thread", "in_thread", is_flag=True, help="Allow it, and the same again in this thread.")
@click.option("--pattern", metavar="P", help="Allow it, and what matches P in this thread; with --always, everywhere.")
@click.option("--always", is_flag=True, help="Allow it, and the same again; saved, see `retinue permissions list`.")
@click.option("--deny", metavar="WHY", help="Refuse it; the agent is told why.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Answer with a file.")
async def answer(
    *,
    id: str | None,
    text: str | None,
    once: bool,
    in_thread: bool,
    pattern: str | None,
    always: bool,
    deny: str | None,
    file: Path | None,
) -> Told:
    """List the questions that wait for a person, or answer the question ID.

    Answering one lets only that call go on; the rest of its tree keeps waiting.
    """
    replies = {
        "--deny": Reply(scope="deny", answer=deny) if deny is not None else None,
        "--always": Reply(scope="always", pattern=pattern) if always else None,
        "--pattern": Reply(scope="thread", pattern=pattern) if pattern is not None and not always else None,
        "--thread": Reply(scope="thread") if in_thread else None,
        "--once": Reply(scope="once") if once else None,
        "--file": Reply(file=file) if file is not None else None,
        "an answer": Reply(answer=text) if text is not None else None,
    }
    given = {name: reply for name, reply in replies.items() if reply is not None}
    if len(given) > 1:
        raise UsageError(f"give one answer; there are {' and '.join(given)}")
    if given and id is None:
        raise UsageError("give the question, too", hint="`retinue answer` lists those that are open")
    async with opened(drive=False) as app:
        found = await questions.open_questions(app)
        if id is None:
            return Told(found, lambda: _show(found))
        question = _named(found, id)
        if not given:
            raise UsageError("give an answer", hint=how_to_answer(question))
        reply = parse_reply(question, text) if text is not None else next(iter(given.values()))
        thread = await questions.answer(app, question.id, reply)
        status = (await row_of(app.engine.runtime.store, thread)).listing.status
        ensure_driver(app.settings)

    def told() -> None:
        if status == "interrupted":
            click.echo(f"answered; the thread is interrupted, to go on: retinue threads resume {thread[:8]}")
            return
        click.echo(f"answered; thread {thread[:8]} goes on")
        note(f"to follow it: retinue threads watch {thread[:8]}")

    return Told({"thread": thread, "status": status}, told)


def _show(found: list[OpenQuestion]) -> None:
    if not found:
        note("nobody waits for an answer")
    screen = Screen(err=sys.stdout, draws=False)
    for question in found:
        show_waiting(screen, question)


def _named(found: list[OpenQuestion], prefix: str) -> OpenQuestion:
    fitting = [question for question in found if question.id.startswith(prefix.lower())]
    if not fitting:
        raise NotFound(f"there is no open question {prefix!r}", hint="`retinue answer` lists those that are open")
    if len(fitting) > 1:
        raise UsageError(f"{prefix!r} may be {' or '.join(q.id for q in fitting)}", hint="write more of the id")
    return fitting[0]
