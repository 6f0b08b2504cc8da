"""`kraft log-dirs`: the log directories of brokers, and what is in them."""

from collections.abc import Sequence

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandGroup, Exit, Invocation
from broker.cli.grammar.arguments import INT32_MAX, Integer, TopicPartitions, topic_option
from broker.cli.grammar.partitions import find_partitions
from broker.cli.grammar.units import format_size
from broker.cli.output import Column, list_of
from broker.client.admin import LogDir


@attrs.frozen
class ReplicaRow:
    """A replica. `offset_lag` is how many records it lacks; a future replica is to replace one elsewhere."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@attrs.frozen
class LogDirRow:
    """A log directory. `error` is null while it works; sizes of its volume are null where brokers do not tell."""

    broker: int
    path: str
    error: str | None
    is_cordoned: bool
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None
    replicas: list[ReplicaRow]


LOG_DIR_COLUMNS: Sequence[Column[LogDirRow]] = (
    Column("broker", lambda row: row.broker, is_number=True),
    Column("directory", lambda row: row.path),
    Column("state", lambda row: row.error or ("cordoned" if row.is_cordoned else "ok"), style=lambda row: _style(row)),
    Column("replicas", lambda row: len(row.replicas), is_number=True),
    Column("size", lambda row: format_size(row.size_bytes), is_number=True),
    Column("disk", lambda row: "-" if row.total_bytes is None else format_size(row.total_bytes), is_number=True),
    Column("free", lambda row: "-" if row.usable_bytes is None else format_size(row.usable_bytes), is_number=True),
)
_Placed = tuple[LogDirRow, ReplicaRow]
REPLICA_COLUMNS: Sequence[Column[_Placed]] = (
    Column("broker", lambda row: row[0].broker, is_number=True),
    Column("directory", lambda row: row[0].path),
    Column("topic", lambda row: row[1].topic),
    Column("partition", lambda row: row[1].partition, is_number=True),
    Column("size", lambda row: format_size(row[1].size_bytes), is_number=True),
    Column("lag", lambda row: row[1].offset_lag, is_number=True),
    Column("future", lambda row: "yes" if row[1].is_future else ""),
)


@click.group("log-dirs", cls=CommandGroup)
def log_dirs() -> None:
    """See the log directories of brokers, and what is in them."""


@log_dirs.command("describe", cls=ClusterCommand, shape=list_of(LogDirRow))
@click.argument("brokers", nargs=-1, type=Integer(0, INT32_MAX), metavar="[BROKER]...")
@topic_option("Only the replicas of this topic; may be repeated.")
@click.option("--replicas", is_flag=True, help="Show every replica.")
async def describe(
    invocation: Invocation,
    brokers: Sequence[int],
    topics: Sequence[TopicPartitions],
    replicas: bool,
) -> None:
    """Show the log directories of brokers; without BROKER of all. A failed directory is exit code 1."""
    async with invocation.admin() as admin:
        partitions = await find_partitions(admin, topics) if topics else None
        results = await admin.describe_log_dirs(brokers or None, partitions=partitions)
    rows = [
        _row(broker, path, directory)
        for broker, directories in sorted(invocation.succeeded(results, "broker").items())
        for path, directory in sorted(directories.items())
    ]
    if any(row.error for row in rows):
        invocation.exit_code = invocation.exit_code or Exit.FAILED
    if replicas and not invocation.printer.is_json:
        placed = [(row, replica) for row in rows for replica in row.replicas]
        invocation.printer.rows(placed, REPLICA_COLUMNS, empty="There are no replicas.")
    else:
        invocation.printer.rows(rows, LOG_DIR_COLUMNS, empty="No broker has answered.")


def _row(broker: int, path: str, directory: LogDir) -> LogDirRow:
    replicas = [
        ReplicaRow(partition.topic, partition.partition, each.size_bytes, each.offset_lag, each.is_future)
        for partition, each in sorted(directory.replicas.items())
    ]
    return LogDirRow(
        broker,
        path,
        None if directory.error is None else str(directory.error),
        directory.is_cordoned,
        sum(replica.size_bytes for replica in replicas),
        directory.total_bytes,
        directory.usable_bytes,
        replicas,
    )


def _style(row: LogDirRow) -> str:
    return "bold red" if row.error else "yellow" if row.is_cordoned else "green"
