"""`pennon completion`: what shells complete."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion for a shell.

    Commands, options, and names of tags and branches are completed. A line for the file that the shell starts with:

    \b
        eval "$(pennon completion bash)"      in ~/.bashrc
        eval "$(pennon completion zsh)"       in ~/.zshrc
        pennon completion fish | source       in ~/.config/fish/config.fish
    """  # noqa: D301
    kind = get_completion_class(shell)
    if kind is None or ctx.parent is None:  # a release of click that has no such shell
        raise click.UsageError(f"There is no completion for {shell}")
    click.echo(kind(ctx.parent.command, {}, "pennon", "_PENNON_COMPLETE").source())
