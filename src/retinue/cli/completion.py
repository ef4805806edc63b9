"""`retinue completion`: the shell's completion script."""

import click
from click.shell_completion import get_completion_class

from retinue.cli.command import Told, command

_INSTALL = {
    "bash": 'eval "$(retinue completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(retinue completion zsh)" in ~/.zshrc',
    "fish": "retinue completion fish > ~/.config/fish/completions/retinue.fish",
}


@command()
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> Told:
    """Print the completion script of SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "retinue", "_RETINUE_COMPLETE").source()
    return Told({"shell": shell, "script": script}, f"# {_INSTALL[shell]}\n{script}")
