"""The grammar of `kraft`: groups and commands, the options they share, failures and exit codes.

`exports` imports the module of a name when the name is first used: `kraft --help` needs none of them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.cli.grammar.command import ClusterCommand as ClusterCommand
    from broker.cli.grammar.command import Command as Command
    from broker.cli.grammar.command import Invocation as Invocation
    from broker.cli.grammar.failures import CommandFailed as CommandFailed
    from broker.cli.grammar.failures import Exit as Exit
    from broker.cli.grammar.failures import WrongSettings as WrongSettings
    from broker.cli.grammar.groups import CommandGroup as CommandGroup
    from broker.cli.grammar.root import kraft as kraft
    from broker.cli.grammar.root import run as run
    from broker.cli.grammar.settings import ClusterSettings as ClusterSettings
else:
    from broker.cli.grammar.exports import __getattr__ as __getattr__
