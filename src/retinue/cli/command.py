"""One way to declare a command and to print what came of it.

A command returns `Told`, an exit code or nothing, and may be a coroutine function. People get
its text; `--json`, which every command has, prints its value and nothing else on stdout.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import click

from retinue.cli.output import print_json

_META = "retinue.json"


@dataclass(frozen=True, slots=True)
class Told:
    """What a command has to say: a value for programs, and for people a text or what prints one."""

    value: object
    text: str | Callable[[], object] = ""
    code: int = 0


class Command(click.Command):
    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *own, help = super().get_params(ctx)
        return [*own, _JSON, help]

    def invoke(self, ctx: click.Context) -> int:
        result: object = super().invoke(ctx)
        if inspect.iscoroutine(result):
            import asyncio

            result = asyncio.run(result)
        if isinstance(result, Told):
            _print(result, as_json=wants_json())
            result = result.code
        return result if isinstance(result, int) else 0


class Group(click.Group):
    command_class = Command


command = partial(click.command, cls=Command)
group = partial(click.group, cls=Group, no_args_is_help=True)


def wants_json() -> bool:
    """Whether the command under way was given `--json`; for those that print as they go."""
    return bool(click.get_current_context().meta.get(_META))


def _remember(ctx: click.Context, _: click.Parameter, given: bool) -> None:  # noqa: FBT001 (click's signature)
    ctx.meta[_META] = given


_JSON = click.Option(["--json"], is_flag=True, expose_value=False, callback=_remember, help="Print JSON.")


def _print(told: Told, *, as_json: bool) -> None:
    if as_json:
        print_json(told.value)
    elif callable(told.text):
        told.text()
    elif told.text:
        click.echo(told.text)
