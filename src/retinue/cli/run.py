"""`retinue run`: one message to an agent, shown as it works; and how a command line becomes a run."""

import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retinue.app.settings import Settings
from retinue.app.settings_file import load_settings
from retinue.cli.command import Told, command, wants_json
from retinue.cli.opening import opened
from retinue.schema.agent import Budget
from retinue.schema.errors import AgentNotFound, UsageError

if TYPE_CHECKING:
    from retinue.app.retinue import Retinue

_MONEY = re.compile(r"\$?\s*(\d+(?:\.\d+)?)\s*(?:\$|usd|dollars?)?", re.IGNORECASE)
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)\s*tok(?:ens?)?", re.IGNORECASE)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}


@command()
@click.argument("words", nargs=-1, metavar="[AGENT] [MESSAGE]...|-")
@click.option("--agent", help="The agent, when all words are the message.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="An input that the agent declares.")
@click.option("--model", help="Another model than the agent's: provider/model or an alias.")
@click.option("--budget", metavar="AMOUNT", help="The most it may use: '$2', '50k tokens', or both with a comma.")
@click.option("--max-depth", type=click.IntRange(min=0), help="How deep agents may call agents.")
@click.option("--plan", metavar="THREAD", help="Carry out the plan that a planning thread ended with.")
@click.option(
    "--workspace", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The folder to work in."
)
@click.option("--no-input", is_flag=True, help="Ask nobody: what would be asked is denied.")
@click.option("--detach", is_flag=True, help="Start it in the background and print the thread's id.")
async def run(
    *,
    words: tuple[str, ...],
    agent: str | None,
    inputs: tuple[str, ...],
    model: str | None,
    budget: str | None,
    max_depth: int | None,
    plan: str | None,
    workspace: Path | None,
    no_input: bool,
    detach: bool,
) -> Told | int:
    """Run an agent and show what it does.

    MESSAGE `-` is read from standard input; what is piped in beside a message follows it. Without AGENT the
    default agent runs. Exit codes: 0 SUCCESS, 3 PARTIAL, 4 FAILED, 5 waiting for a person, 130 interrupted.
    """
    from retinue.app.threads import find_thread, plan_message
    from retinue.cli.drive import ensure_driver
    from retinue.cli.foreground import in_front

    settings = load_settings(workspace)
    bounds = parse_budget(budget) if budget is not None else None
    async with opened(settings, drive=not detach, workspace=workspace) as app:
        name, message = chosen(app, settings, words, agent)
        message = with_stdin(message)
        if plan is not None:
            planned = await find_thread(app.engine.runtime.store, plan)
            message = plan_message(await app.engine.state(planned), message)
        if not message.strip() and not inputs:
            raise UsageError("say what the agent should do", hint=f"retinue run {name} MESSAGE, or - to read it")
        thread = await app.start(
            name,
            message,
            inputs=parse_inputs(inputs),
            model=model,
            people="none" if no_input else "wait",
            budget=bounds,
            max_depth=max_depth,
        )
        if detach:
            ensure_driver(settings)
            return Told({"thread": thread}, thread)
        return await in_front(app, thread, asks=not no_input, as_json=wants_json())


def chosen(app: "Retinue", settings: Settings, words: Sequence[str], agent: str | None) -> tuple[str, str]:
    """The agent and the message that the words mean.

    The first word is the agent. A single one that names no agent, and is not
    close to a name either, is a message to the default agent.
    """
    if agent is not None or not words or words[0] == "-":
        return agent or settings.default_agent, " ".join(words)
    try:
        app.pin(words[0])
    except AgentNotFound as e:
        if len(words) == 1 and (" " in words[0].strip() or not e.near):
            return settings.default_agent, words[0]
        raise
    return words[0], " ".join(words[1:])


def with_stdin(message: str) -> str:
    """The message with what is piped in: in place of `-`, else after it."""
    if message == "-":
        return sys.stdin.read()
    if not _is_piped():
        return message
    return "\n\n".join(filter(None, [message, sys.stdin.read()]))


def _is_piped() -> bool:
    """A terminal and /dev/null have nothing to say."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def parse_inputs(pairs: Sequence[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--input {pair!r} is not NAME=VALUE")
        values[name.strip()] = value
    return values


def parse_budget(text: str) -> Budget:
    """`$2`, `50k tokens`, or both with a comma."""
    cost: int | None = None
    tokens: int | None = None
    for part in text.split(","):
        if found := _TOKENS.fullmatch(part.strip()):
            tokens = int(float(found[1]) * _SCALE[found[2].lower()])
        elif found := _MONEY.fullmatch(part.strip()):
            cost = round(float(found[1]) * 1e9)
        else:
            raise UsageError(f"--budget {text!r} is no amount", hint="write '$2', '50k tokens' or '$2, 50k tokens'")
    return Budget(cost=cost, tokens=tokens)
