"""`kraft <command> ...`: finds the command, and says which there are."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

# Imported when it is asked for: a node should not wait for the import of tools it does not run.
COMMANDS: Final = {
    "start": ("broker.cli.start", "run a node"),
    "cluster": ("broker.cli.cluster", "run a cluster on this machine"),
    "format": ("broker.cli.format", "make log directories those of a node in a cluster"),
    "quorum": ("broker.cli.quorum", "look at the controllers' quorum, and change its voters"),
    "random-uuid": ("broker.cli.random_uuid", "print an id for a cluster or a directory"),
    "dump-log": ("broker.cli.dump_log", "print and check the files of a log"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command with its arguments; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        print(f"kraft: no command {arguments[0]!r}\n\n{_usage()}", file=sys.stderr)
        return 2
    module, _ = COMMANDS[arguments[0]]
    run: Callable[[Sequence[str]], int] = import_module(module).main
    return run(arguments[1:])


def _usage() -> str:
    lines = [f"  {name:<12} {purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "usage: kraft <command> [options]\n\n" + "\n".join(lines)
