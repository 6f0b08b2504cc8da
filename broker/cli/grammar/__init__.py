"""The grammar of `kraft`: groups and commands, the options they share, failures and exit codes."""

from broker.cli.grammar.command import ClusterCommand, Command, Invocation
from broker.cli.grammar.failures import CommandFailed, Exit, WrongSettings
from broker.cli.grammar.groups import CommandGroup
from broker.cli.grammar.root import kraft, run
from broker.cli.grammar.settings import ClusterSettings

__all__ = [
    "ClusterCommand",
    "ClusterSettings",
    "Command",
    "CommandFailed",
    "CommandGroup",
    "Exit",
    "Invocation",
    "WrongSettings",
    "kraft",
    "run",
]
