"""`kraft completion`: the script by which a shell completes commands, options, topics and groups."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from broker.cli.grammar import Command, CommandFailed, Invocation
from broker.cli.grammar.root import COMPLETION_VARIABLE

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(invocation: Invocation, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(kraft completion bash)"           in ~/.bashrc
    zsh:   eval "$(kraft completion zsh)"            in ~/.zshrc
    fish:  kraft completion fish | source            in ~/.config/fish/config.fish
    """
    found = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    try:
        assert found is not None, "click supports these shells"
        invocation.printer.lay_out(found(root, {}, "kraft", COMPLETION_VARIABLE).source())
    except RuntimeError as error:  # an old bash
        raise CommandFailed(str(error)) from error
