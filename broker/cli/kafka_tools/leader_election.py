"""kafka-leader-election: have leaders elected (LeaderElectionCommand.java)."""

from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.java_order import partition_order
from broker.cli.kafka_tools.json_files import entries, partition_of, read_json
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    integer,
    option,
)
from broker.cli.printing import print_text
from broker.client.admin import ElectionType
from broker.client.errors import TimedOut
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

_SCOPES: Final = ("topic", "all-topic-partitions", "path-to-json-file")
_TIMEOUT_MS: Final = 30_000


def _election_type(text: str) -> ElectionType:
    """Parses the value of --election-type. Raises ValueError."""
    try:
        return ElectionType[text.upper()]
    except KeyError:
        raise ValueError(text) from None


PARSER: Final = OptionParser(
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    option("admin.config", "file", "The old name of --command-config."),
    option("path-to-json-file", "file", 'A file with partitions: {"partitions": [{"topic": "foo", "partition": 1}]}.'),
    option("topic", "topic", "The topic; together with --partition."),
    option("partition", "partition", "The partition of --topic.", integer),
    flag("all-topic-partitions", "All partitions."),
    option(
        "election-type",
        "preferred|unclean",
        "REQUIRED: preferred, where another replica than the preferred one leads; unclean, where none does, "
        "which may lose records.",
        _election_type,
    ),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    partitions = _partitions(options)
    election_type: ElectionType = options.value("election-type")
    name = options.renamed("admin.config", "command-config")
    async with open_admin(options, config_option=name) as admin:
        try:
            results = await admin.elect_leaders(partitions, election_type=election_type, timeout_ms=_TIMEOUT_MS)
        except TimedOut as error:
            print_text("Timeout waiting for election results")
            raise ToolExit(1, "Timeout waiting for election results") from error
    failed: list[TopicPartition] = []
    unneeded: list[TopicPartition] = []
    for each in partition_order(results.failed):
        reason = results.failed[each]
        is_unneeded = isinstance(reason, KafkaError) and reason.code == ErrorCode.ELECTION_NOT_NEEDED
        (unneeded if is_unneeded else failed).append(each)
    if results.succeeded:
        elected = _named(partition_order(results.succeeded))
        print_text(f"Successfully completed leader election ({election_type.name}) for partitions {elected}")
    if unneeded:
        print_text(f"Valid replica already elected for partitions {_named(unneeded)}")
    for each in failed:
        print_text(
            f"Error completing leader election ({election_type.name}) for partition: {_named([each])}: "
            f"{exception_of(results.failed[each])}"
        )
    if failed:
        raise ToolExit(1, f"{len(failed)} replica(s) could not be elected")
    return 0


def _partitions(options: Options) -> list[TopicPartition] | None:
    """The partitions that are chosen; None for all. Raises ToolExit."""
    missing = [name for name in ("bootstrap-server", "election-type") if name not in options]
    if missing:
        raise ToolExit(1, f"Missing required option(s): {', '.join(missing)}")
    if sum(scope in options for scope in _SCOPES) != 1:
        raise ToolExit(1, f"One and only one of the following options is required: {', '.join(_SCOPES)}")
    if "topic" in options and "partition" not in options:
        raise ToolExit(1, "Missing required option(s): partition")
    if "partition" in options and "topic" not in options:
        raise ToolExit(1, "Option partition is only allowed if topic is used")
    if "topic" in options:
        return [TopicPartition(options.value("topic"), options.value("partition"))]
    if "all-topic-partitions" in options:
        return None
    partitions = [partition_of(entry) for entry in entries(read_json(options.value("path-to-json-file")), "partitions")]
    if duplicates := [each for each in dict.fromkeys(partitions) if partitions.count(each) > 1]:
        raise ToolExit(1, f"Replica election data contains duplicate partitions: {_named(duplicates)}")
    return partitions


def _named(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions)
