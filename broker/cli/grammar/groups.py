"""Groups of commands: sections in help, near names for mistyped ones, modules that load when they are used."""

import gc
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import click

from broker.cli.grammar.options import CLUSTER_OPTIONS_HEADING, cluster_options, split_options

# A line of the root's help: a command's name, `module:attribute`, and what it does.
LazyCommand = tuple[str, str, str]

_SIMILARITY: Final = 0.6


class CommandGroup(click.Group):
    """A group of commands. The options that say which cluster to ask are taken before a command's name, too."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes["params"] = [*attributes.get("params", ()), *cluster_options()]
        attributes.setdefault("no_args_is_help", True)
        super().__init__(*args, **attributes)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            near = get_close_matches(name.lower(), names, n=1, cutoff=_SIMILARITY)
            hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(names)}."
            raise click.UsageError(f"{ctx.command_path} has no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """First the commands, then the options."""
        self.format_commands(ctx, formatter)
        for heading, records in split_options(self, ctx):
            with formatter.section(heading):
                formatter.write_dl(records)


class LazyGroup(CommandGroup):
    """A group that imports a command's module when the command is used, and not to list its name.

    `sections` are the command's lines by the heading that they stand under.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[LazyCommand]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in self._sections.values() for name, _, _ in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for commands in self._sections.values():
            for name, path, _ in commands:
                if name == cmd_name:
                    return _import_command(path)
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, purpose) for name, _, purpose in commands])


def _import_command(path: str) -> click.Command:
    """Import `module:attribute`. Collections would take a fifth of the time, and find little garbage: modules stay."""
    module, _, attribute = path.partition(":")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        command: click.Command = getattr(import_module(module), attribute)
    finally:
        if was_enabled:
            gc.enable()
    return command


__all__ = ["CLUSTER_OPTIONS_HEADING", "CommandGroup", "LazyCommand", "LazyGroup"]
