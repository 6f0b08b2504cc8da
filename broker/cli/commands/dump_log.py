"""`kraft dump-log`: print the files of a partition's directory in readable form, and check them.

Options and lines are those of Kafka's DumpLogSegments tool, so that scripts written for it work here. Unlike that tool
it ends with exit code 1 when it has found something wrong.
"""

import sys
from typing import Any, Final

import click

from broker.cli.dump_log import Dump, DumpOptions
from broker.cli.grammar import Command, Exit, Invocation
from broker.cli.grammar.arguments import Integer
from broker.cli.printing import print_error, print_record
from kraft.env import RealDisk

_MESSAGE_SIZE_MAX: Final = 5 * 1024 * 1024


@click.command("dump-log", cls=Command)
@click.option("--files", required=True, metavar="FILE,...", help="The files to print.")
@click.option("--deep-iteration", is_flag=True, help="Print every record, not only batches.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too.")
@click.option("--skip-record-metadata", is_flag=True, help="Leave out offsets, sizes and the like.")
@click.option("--index-sanity-check", is_flag=True, help="Check indexes in the way that a starting node does.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing them.")
@click.option(
    "--max-bytes",
    type=Integer(0),
    metavar="BYTES",
    default=sys.maxsize,
    show_default=False,
    help="How much of a log file to read.",
)
@click.option(
    "--max-message-size",
    type=Integer(0),
    metavar="BYTES",
    default=_MESSAGE_SIZE_MAX,
    expose_value=False,
    help="Accepted because Kafka's tool has it; it has no effect.",
)
def dump_log(invocation: Invocation, files: str, **options: Any) -> None:
    """Print the files of a partition in readable form, and check them.

    Ends with exit code 1 if something is wrong with a file. Files of __cluster_metadata-0, which have a format of their
    own, are printed in the same way: --deep-iteration and --print-data-log print the records of its log.
    """
    dump = Dump(RealDisk(), DumpOptions(**options), print_record)
    for path in files.split(","):
        try:
            dump.dump(path)
        except OSError as error:
            dump.problems.append(f"{path}: {error.strerror or error}")
    for problem in dump.problems:
        print_error(problem)
        invocation.exit_code = Exit.FAILED
