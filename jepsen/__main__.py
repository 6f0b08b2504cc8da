"""`python -m jepsen <command>`."""

import argparse

from jepsen.simulation import command


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jepsen", description="Try to break the promises.")
    commands = parser.add_subparsers(required=True, metavar="command")
    simulate = commands.add_parser("sim", help="nodes in virtual time, with faults as a seed says")
    command.add_arguments(simulate)
    simulate.set_defaults(run=command.run)
    options = parser.parse_args()
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
