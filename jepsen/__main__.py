"""`python -m jepsen <command>`."""

import argparse
import sys
from importlib import import_module
from typing import Final

# Each command is imported on demand: those that drive real clients need packages that the simulator does not.
COMMANDS: Final = {
    "sim": ("jepsen.simulation.command", "nodes in virtual time, with faults chosen by a seed"),
    "run": ("jepsen.processes.run.command", "real nodes, librdkafka clients, a nemesis and checkers"),
    "fuzz": ("jepsen.processes.fuzz.command", "hostile frames to all ports of a node"),
    "half-open": ("jepsen.processes.fuzz.half_open", "connections that never finish a TLS handshake or a login"),
    "report": ("jepsen.report.command", "an HTML report of a run"),
    "failover": ("jepsen.processes.failover", "real nodes, with faults of the quorum's leader"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jepsen", description="Test the cluster's guarantees under faults.")
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
