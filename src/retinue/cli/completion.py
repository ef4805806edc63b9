"""`retinue completion`: the shell's completion script."""

import click
from click.shell_completion import get_completion_class

from retinue.schema.errors import UsageError

_INSTALL = {
    "bash": 'eval "$(retinue completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(retinue completion zsh)" in ~/.zshrc',
    "fish": "retinue completion fish > ~/.config/fish/completions/retinue.fish",
}


@click.command
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell!r}")
    root = ctx.find_root().command
    click.echo(f"# {_INSTALL[shell]}")
    click.echo(kind(root, {}, "retinue", "_RETINUE_COMPLETE").source())
