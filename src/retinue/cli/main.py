"""The command line's frame: which commands there are, and how failures are told.

A command group is one line in `COMMANDS`; its module is imported when it is called,
never for `retinue --help`. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from retinue.schema.errors import RetinueError, UsageError

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("retinue.cli.run:run", "Run an agent and show what it does."),
    "chat": ("retinue.cli.chat:chat", "Talk to an agent."),
    "threads": ("retinue.cli.threads:threads", "List, show, follow and steer threads."),
    "answer": ("retinue.cli.answer:answer", "List the questions that wait for a person, and answer them."),
    "memory": ("retinue.cli.memory:memory", "What agents remember across runs."),
    "permissions": ("retinue.cli.permissions:permissions", "What was granted, and why a call is allowed or not."),
    "tools": ("retinue.cli.tools:tools", "The tools there are, those an agent gets, and trust in a project's."),
    "mcp": ("retinue.cli.mcp:mcp", "MCP servers whose tools agents may use."),
    "agents": ("retinue.cli.agents:agents", "List, show, check, write and trust agents."),
    "repos": ("retinue.cli.repos:repos", "Git repositories that agents come from."),
    "serve": ("retinue.cli.serve:serve", "Serve the agents over HTTP."),
    "keys": ("retinue.cli.keys:keys", "API keys for `serve`: create, list, revoke."),
    "doctor": ("retinue.cli.doctor:doctor", "What is configured, reachable and missing, and how to fix it."),
    "completion": ("retinue.cli.completion:completion", "Print the script that completes commands in your shell."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and help without importing them."""

    def __init__(self, table: Mapping[str, tuple[str, str]], *, name: str, help: str) -> None:
        super().__init__(name=name, help=help, no_args_is_help=True)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command: object = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self._table:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._table, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in self._table.items()])


app = LazyGroup(COMMANDS, name="retinue", help="Runs agents that are written as files.")


@app.result_callback()
def _done(*_: object, **__: object) -> None:
    sys.stdout.flush()


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 (click's signature)
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"retinue {version('retinue')}")
    ctx.exit()


app.params.append(
    click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
    )
)


def main(args: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its exit code."""
    try:
        code = app.main(args=None if args is None else list(args), prog_name="retinue", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as e:
        e.show()
        sys.exit(e.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone: nothing more to flush
        sys.exit(1)
    except RetinueError as e:
        if os.environ.get("RETINUE_DEBUG") == "1":
            raise
        _tell(e.message, e.hint)
        sys.exit(2 if isinstance(e, UsageError) else 1)
    except Exception as e:
        if os.environ.get("RETINUE_DEBUG") == "1":
            raise
        _tell(f"internal error: {type(e).__name__}: {e}", "RETINUE_DEBUG=1 shows where")
        sys.exit(1)


def _tell(message: str, hint: str | None) -> None:
    click.echo(f"retinue: {message}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)
