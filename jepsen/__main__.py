"""`python -m jepsen <command>`."""

import argparse
import sys
from importlib import import_module
from typing import Final

# Each command is imported on demand: those that drive real clients need packages that the simulator does not.
COMMANDS: Final = {
    "sim": ("jepsen.simulation.command", "nodes in virtual time, with faults as a seed says"),
    "run": ("jepsen.processes.run.command", "real nodes under clients of librdkafka, a nemesis, and a verdict"),
    "fuzz": ("jepsen.processes.fuzz.command", "hostile frames over all ports of a node"),
    "report": ("jepsen.report.command", "a page to look at, from what a run has left"),
    "failover": ("jepsen.processes.failover", "real nodes, and trouble for the one that leads the quorum"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jepsen", description="Try to break the promises.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, (module_name, purpose) in COMMANDS.items():
        subparser = commands.add_parser(name, help=purpose)
        if name in sys.argv[1:2]:
            module = import_module(module_name)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    options = parser.parse_args()
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
