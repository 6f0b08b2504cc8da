"""`kraft log-dirs`: the log directories of brokers, what is in them, moves between them, and cordons."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import click

from broker.cli.commands.log_dir_cordons import find_directories, set_cordoned
from broker.cli.grammar import ClusterCommand, CommandGroup, Exit, Invocation
from broker.cli.grammar.arguments import INT32_MAX, Integer, Parsed, TopicPartitions, topic_option
from broker.cli.grammar.partitions import find_partitions, partitions_to_search
from broker.cli.grammar.units import format_size
from broker.cli.output import Column, list_of
from broker.client.admin import LogDir, TopicPartitionReplica
from broker.client.errors import KafkaError
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode


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


@attrs.frozen
class MovedReplica:
    """A replica that is to be in a log directory of its broker. `begun` is true if `state` is that a move has begun.

    In the other states the replica was in the directory before, where its move elsewhere has ended or it had none, or
    the broker does not have the replica yet.
    """

    broker: int
    topic: str
    partition: int
    path: str
    begun: bool
    state: str


@attrs.frozen
class CordonedDirectory:
    """A log directory of a broker, and whether it is cordoned now, so that it gets no new replicas."""

    broker: int
    path: str
    is_cordoned: bool


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


MOVED_COLUMNS: Sequence[Column[MovedReplica]] = (
    Column("broker", lambda row: row.broker, is_number=True),
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("directory", lambda row: row.path),
    Column("state", lambda row: row.state),
)
CORDONED_COLUMNS: Sequence[Column[CordonedDirectory]] = (
    Column("broker", lambda row: row.broker, is_number=True),
    Column("directory", lambda row: row.path),
    Column("state", lambda row: "cordoned" if row.is_cordoned else "ok"),
)
_BEGUN: Final = "begun"
_ALREADY_THERE: Final = "already there"
_MOVE_ENDED: Final = "its move elsewhere has ended"
_ABSENT: Final = "not on this broker yet"
_broker_argument: Final = click.argument("broker", type=Integer(0, INT32_MAX))


def _parse_directory(text: str) -> str:
    """An element of `cordoned.log.dirs`. A comma would make several elements of it, and `*` stands for all."""
    if text == "*" or [text] != [each.strip() for each in text.split(",") if each]:
        raise ValueError(f"{text!r} is not the path of one log directory; name each by an argument of its own")
    return text


_directories_argument: Final = click.argument(
    "directories", nargs=-1, required=True, metavar="DIRECTORY...", type=Parsed("directory", _parse_directory)
)


@click.group("log-dirs", cls=CommandGroup)
def log_dirs() -> None:
    """See the log directories of brokers and what is in them, move replicas between them, and cordon directories."""


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


@log_dirs.command("move", cls=ClusterCommand, shape=list_of(MovedReplica))
@_broker_argument
@click.argument("directory")
@topic_option(
    "The replicas to move: those of a topic on the broker, or of some partitions; may be repeated.", required=True
)
async def move(invocation: Invocation, broker: int, directory: str, topics: Sequence[TopicPartitions]) -> None:
    """Move replicas of BROKER to another of its log directories, while they are used.

    DIRECTORY is a path as `kraft log-dirs describe` shows it. The command ends when the moves have begun; `describe
    --replicas` shows the copies, marked as future, until they are complete. A move to the directory in which the
    replica is ends its move elsewhere, if there is one. A replica that the broker does not have yet is created in
    DIRECTORY when it is assigned to the broker. `replica.alter.log.dirs.io.max.bytes.per.second` limits the rate.
    """
    async with invocation.admin() as admin:
        partitions = await find_partitions(admin, topics)
        before = (await admin.describe_log_dirs([broker], partitions=partitions)).value(broker)
        (path,) = find_directories(broker, [directory], before)
        whole = [topic for topic, numbers in topics if numbers is None]
        present = await partitions_to_search(admin, None, broker) if whole else []
        replicas = {
            TopicPartitionReplica(each.topic, each.partition, broker): path
            for each in partitions
            if each.topic not in whole or each in present
        }
        results = await admin.alter_replica_log_dirs(replicas)
    succeeded = invocation.succeeded(results, "replica", ignored=[ErrorCode.REPLICA_NOT_AVAILABLE])
    states = {replica: _state(replica, path, before) for replica in succeeded}
    states |= {replica: _ABSENT for replica, error in results.failed.items() if _is_absent(error)}
    rows = [
        MovedReplica(broker, replica.topic, replica.partition, path, state == _BEGUN, state)
        for replica, state in sorted(states.items())
    ]
    invocation.printer.rows(rows, MOVED_COLUMNS, empty="No replica is moved.")


@log_dirs.command("cordon", cls=ClusterCommand, shape=list_of(CordonedDirectory))
@_broker_argument
@_directories_argument
async def cordon(invocation: Invocation, broker: int, directories: Sequence[str]) -> None:
    """Keep new replicas out of log directories of BROKER.

    DIRECTORY is a path as `kraft log-dirs describe` shows it. The command adds it to `cordoned.log.dirs` of the broker,
    and ends when the controllers know it. Replicas that are in the directory stay; moves to it are refused. A broker
    that has only cordoned directories gets no new replicas.
    """
    await _cordon(invocation, broker, directories, True)


@log_dirs.command("uncordon", cls=ClusterCommand, shape=list_of(CordonedDirectory))
@_broker_argument
@_directories_argument
async def uncordon(invocation: Invocation, broker: int, directories: Sequence[str]) -> None:
    """Let cordoned log directories of BROKER have new replicas again.

    A DIRECTORY that is no longer in `log.dirs` of the broker is removed from `cordoned.log.dirs`: until then, the
    broker refuses the config, and none of its directories is cordoned.
    """
    await _cordon(invocation, broker, directories, False)


async def _cordon(invocation: Invocation, broker: int, directories: Sequence[str], is_cordoned: bool) -> None:
    async with invocation.admin() as admin:
        changed = await set_cordoned(admin, broker, directories, is_cordoned)
    for path in (path for path, is_present in changed.items() if not is_present):
        invocation.printer.note(f"kraft: broker {broker} has no log directory {path}: it is not cordoned any more.")
    rows = [CordonedDirectory(broker, path, is_cordoned) for path, is_present in changed.items() if is_present]
    invocation.printer.rows(rows, CORDONED_COLUMNS)


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


def _state(replica: TopicPartitionReplica, directory: str, before: Mapping[str, LogDir]) -> str:
    """The state of a move that the broker has accepted, by the directories of the replica `before` the move."""
    partition = TopicPartition(replica.topic, replica.partition)
    held = {path: each.replicas[partition].is_future for path, each in before.items() if partition in each.replicas}
    if held.get(directory, True):
        return _BEGUN
    return _MOVE_ENDED if any(held.values()) else _ALREADY_THERE


def _is_absent(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.REPLICA_NOT_AVAILABLE


def _style(row: LogDirRow) -> str:
    return "bold red" if row.error else "yellow" if row.is_cordoned else "green"
