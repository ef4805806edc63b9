"""The command line's frame: which commands there are, and how failures are told.

A command group is one line in `COMMANDS`; its module is imported when it is called,
never for `retinue --help`. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("retinue.cli.run:run", "Run an agent and show what it does."),
    "chat": ("retinue.cli.chat:chat", "Talk to an agent."),
    "threads": ("retinue.cli.threads:threads", "List, show, follow and steer threads."),
    "answer": ("retinue.cli.answer:answer", "List the questions that wait for a person, and answer them."),
    "memory": ("retinue.cli.memory:memory", "What agents remember across runs."),
    "permissions": ("retinue.cli.permissions:permissions", "What was granted, and why a call is allowed or not."),
    "tools": ("retinue.cli.tools:tools", "The tools there are, and trust in those of a project."),
    "mcp": ("retinue.cli.mcp:mcp", "MCP servers whose tools agents may use."),
    "agents": ("retinue.cli.agents:agents", "List, show, check, write and trust agents."),
    "repos": ("retinue.cli.repos:repos", "Git repositories that agents come from."),
    "serve": ("retinue.cli.serve:serve", "Serve the agents over HTTP."),
    "keys": ("retinue.cli.keys:keys", "API keys for `serve`: create, list, revoke."),
    "doctor": ("retinue.cli.doctor:doctor", "What is configured, reachable and missing, and how to fix it."),
    "demo": ("retinue.cli.demo:demo", "A team of agents at work, without a key."),
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
app = click.version_option(package_name="retinue", message="%(prog)s %(version)s")(app)


def main(args: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its exit code."""
    _open_standard_files()
    given = sys.argv[1:] if args is None else args
    words = [word.encode(errors="surrogateescape").decode(errors="replace") for word in given]
    try:
        code = app.main(args=words, prog_name="retinue", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone: nothing more to flush
        code = 1
    except Exception as e:
        code = _fail(e, as_json="--json" in words[: words.index("--") if "--" in words else None])
    sys.exit(code if isinstance(code, int) else 0)


def _open_standard_files() -> None:
    """What was closed for us is as good as empty; else the next file we open would take its number.

    What an encoding can't say is replaced: no text may end a command.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 (it stays open)
        if isinstance(file := getattr(sys, name), TextIOWrapper):
            file.reconfigure(errors="replace")


def _fail(error: Exception, *, as_json: bool) -> int:
    """Tell what went wrong; returns the exit code."""
    from retinue.schema.errors import RetinueError, UsageError

    if isinstance(error, click.ClickException):
        if not as_json:
            error.show()
            return error.exit_code
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if isinstance(context, click.Context) else None
        error = UsageError(error.format_message(), hint=hint)
    if os.environ.get("RETINUE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if not isinstance(error, RetinueError):
        hint = None if isinstance(error, OSError) else "RETINUE_DEBUG=1 shows where"
        what = str(error) if isinstance(error, OSError) else f"internal error: {type(error).__name__}: {error}"
        error = RetinueError(what, hint=hint)
    if error.code == "agent_not_found" and not error.hint:
        error.hint = _unread() or "`retinue agents list` shows them"
    if as_json:
        from retinue.cli.output import error_json, print_json

        with suppress(OSError):  # stdout itself may be what failed
            print_json(error_json(error))
    else:
        click.echo(f"retinue: {error.message}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
    return 2 if isinstance(error, UsageError) else 1


def _unread() -> str | None:
    """The agent may well be in a folder of another tool, which is read only when it is asked for."""
    from retinue.app.folders import unread
    from retinue.cli.here import settings_here
    from retinue.schema.errors import RetinueError

    try:
        return unread(settings_here())
    except RetinueError:
        return None
