"""`kraft start`, as the grammar knows it: its help, and the mistakes in its arguments.

Arguments without a mistake do not come here: see `start_arguments`.
"""

from collections.abc import Sequence

import click

from broker.cli.grammar import Command, Exit, Invocation
from broker.cli.start_arguments import LOG_FORMATS, LOG_LEVELS, StartArguments


@click.command("start", cls=Command)
@click.argument("properties", required=False, type=click.Path())
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A config that wins over the file.")
@click.option(
    "--brokers",
    metavar="N",
    help="How many brokers to run, each in a process of its own; short for --override kraft.brokers=N.",
)
@click.option(
    "--stop-at-eof", is_flag=True, help="Also stop when standard input is closed, as when the parent process ends."
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", help="Lowest level that is logged.")
@click.option("--log-format", type=click.Choice(LOG_FORMATS), default="text", help="How standard error is written.")
def start(
    invocation: Invocation,
    properties: str | None,
    overrides: Sequence[str],
    brokers: str | None,
    stop_at_eof: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run a node until SIGTERM or Ctrl-C.

    PROPERTIES is a Kafka server.properties file. Without one, the node is a controller and broker for development, on
    ports 9092 and 9093 of this machine, with its data in ./data.

    With --brokers, a supervisor runs several brokers, with the next node ids and with ports 10, 20, ... above those of
    the first. It starts a broker again that ends. Each has its data in a directory of its own in each log directory.

    The log is written to standard error: a line for each event, with time, level, node, event and fields. JSON has an
    object on each line. docs/events.md lists all events.
    """
    from broker.cli.start import run_node

    arguments = StartArguments(properties, tuple(overrides), stop_at_eof, log_level, log_format, brokers)
    invocation.exit_code = Exit(run_node(arguments))
