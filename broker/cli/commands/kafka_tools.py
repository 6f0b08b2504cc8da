"""`kraft kafka-tools`: Kafka's own command line tools, for scripts that call them."""

import os
from collections.abc import Sequence

import attrs
import click

from broker.cli.grammar import Command, CommandFailed, CommandGroup, Invocation
from broker.cli.output import one


@attrs.frozen
class InstalledTools:
    """The launchers in a directory."""

    directory: str
    launchers: Sequence[str]


@click.group("kafka-tools", cls=CommandGroup)
def kafka_tools() -> None:
    """Kafka's own command line tools (kafka-topics and others) for scripts that call them."""


@kafka_tools.command("install", cls=Command, shape=one(InstalledTools))
@click.argument("directory")
def install(invocation: Invocation, directory: str) -> None:
    """Put launchers of Kafka's tools into DIRECTORY, with and without .sh, for a script's PATH.

    They shadow no installed Kafka as long as DIRECTORY is not on the PATH of anything else.
    """
    from broker.cli.kafka_tools.launchers import LauncherExists, install_launchers

    absolute = os.path.abspath(directory)
    try:
        launchers = install_launchers(absolute)
    except (LauncherExists, OSError) as error:
        raise CommandFailed(str(error)) from error
    lines = [f'{len(launchers)} launchers are in {absolute}. Use them with: PATH="{absolute}:$PATH"']
    invocation.printer.one(InstalledTools(absolute, launchers), lines)
