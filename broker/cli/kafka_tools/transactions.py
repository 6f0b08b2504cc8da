"""kafka-transactions: transactions and the producers of partitions (TransactionsCommand.java).

Unlike the other tools it has commands: options of the tool stand before the command's name, those of the command after.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final, TypeAlias

from broker.cli.grammar.partitions import partitions_to_search
from broker.cli.kafka_tools.argument_parser import ToolParser
from broker.cli.kafka_tools.clients import admin_of_brokers, read_properties
from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.options import ToolExit, UsageFailure, integer, long, short
from broker.cli.printing import print_text
from broker.client.admin import Admin, HangingTransaction, ProducerDescription
from broker.client.errors import ClientError
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.errors import KafkaError

_NAME: Final = "kafka-transactions.sh"
_MINUTE_MS: Final = 60_000
_LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBED: Final = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs"),
    *("CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
)
_PRODUCERS: Final = (
    *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
    "CurrentTransactionStartOffset",
)
_HANGING: Final = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
    "Duration(min)",
)

Run: TypeAlias = Callable[[Admin, Namespace], Awaitable[None]]


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(arguments)
    if options.command is None:
        raise UsageFailure("too few arguments")
    command: Run = options.run
    properties = {} if options.command_config is None else read_properties(options.command_config)
    async with admin_of_brokers(options.bootstrap_server, properties) as admin:
        await command(admin, options)
    return 0


def _parser() -> ArgumentParser:
    parser = ToolParser(_NAME, description="Shows transactions and producers, and aborts transactions that hang.")
    parser.add_argument("-v", "--version", action="version", version=version("kraft"))
    parser.add_argument("--command-config", metavar="FILE", help="A properties file with configs of the client.")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="The brokers to connect to.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, run: Run, help: str) -> ArgumentParser:
        added: ArgumentParser = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        added.set_defaults(run=run)
        return added

    listing = command("list", _list, "Lists transactions.")
    listing.add_argument("--duration-filter", type=long, help="Only transactions open for longer than so many ms.")
    listing.add_argument("--transactional-id-pattern", help="Only transactional ids that match this expression.")
    describing = command("describe", _describe, "Describes the state of a transactional id.")
    describing.add_argument("--transactional-id", required=True, help="The transactional id.")
    producers = command("describe-producers", _describe_producers, "Describes the producers of a partition.")
    producers.add_argument("--broker-id", type=integer, help="The broker to ask, in place of the leader.")
    _add_partition(producers, is_required=True)
    _add_abort(command("abort", _abort, "Aborts a hanging transaction."))
    hanging = command("find-hanging", _find_hanging, "Finds hanging transactions.")
    hanging.add_argument("--broker-id", type=integer, help="The broker whose partitions are searched.")
    hanging.add_argument("--max-transaction-timeout", type=integer, default=15, help="In minutes; 15 by default.")
    _add_partition(hanging, is_required=False)
    terminate = command("forceTerminateTransaction", _terminate, "Aborts a transaction, and fences its producer.")
    terminate.add_argument("--transactionalId", required=True, help="The transactional id.")
    return parser


def _add_abort(abort: ArgumentParser) -> None:
    _add_partition(abort, is_required=True)
    abort.add_argument("--start-offset", type=long, help="The offset at which the transaction starts.")
    abort.add_argument("--producer-id", type=long, help="The producer id; with both epochs, without --start-offset.")
    abort.add_argument("--producer-epoch", type=short, help="The producer's epoch.")
    abort.add_argument("--coordinator-epoch", type=integer, help="The coordinator's epoch, which may be -1.")


def _add_partition(parser: ArgumentParser, *, is_required: bool) -> None:
    parser.add_argument("--topic", required=is_required, help="The topic.")
    parser.add_argument("--partition", type=integer, required=is_required, help="The partition.")


async def _list(admin: Admin, options: Namespace) -> None:
    duration_ms = options.duration_filter
    with _failing("Failed to list transactions"):
        found = (
            await admin.list_transactions(
                open_for_ms=duration_ms if duration_ms is not None and duration_ms >= 0 else None,
                transactional_id_pattern=options.transactional_id_pattern,
            )
        ).raise_first()
    _print(
        _LISTED,
        (
            (each.transactional_id, coordinator, each.producer_id, each.state)
            for coordinator, listed in found.items()
            for each in listed
        ),
    )


async def _describe(admin: Admin, options: Namespace) -> None:
    name = options.transactional_id
    with _failing(f"Failed to describe transaction state of transactional-id `{name}`"):
        found = (await admin.describe_transactions([name])).value(name)
    start_ms = found.start_ms
    row = (
        *(found.coordinator_id, name, found.producer_id, found.producer_epoch, found.state, found.timeout_ms),
        *(("None", "None") if start_ms is None else (start_ms, int(time.time() * 1000) - start_ms)),
        ",".join(f"{each.topic}-{each.partition}" for each in found.partitions),
    )
    _print(_DESCRIBED, [row])


async def _describe_producers(admin: Admin, options: Namespace) -> None:
    partition = TopicPartition(options.topic, options.partition)
    where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    with _failing(f"Failed to describe producers for partition {_named(partition)} on {where}"):
        found = (await admin.describe_producers([partition], broker_id=options.broker_id)).value(partition)
    _print(
        _PRODUCERS,
        (
            (
                *(each.producer_id, each.epoch, each.coordinator_epoch, each.last_sequence, each.last_timestamp_ms),
                each.transaction_start_offset,
            )
            for each in found
        ),
    )


async def _abort(admin: Admin, options: Namespace) -> None:
    partition = TopicPartition(options.topic, options.partition)
    if options.start_offset is not None:
        producer = await _producer_of(admin, partition, options.start_offset)
        given = (producer.producer_id, producer.epoch, producer.coordinator_epoch)
    else:
        given = _producer_given(options)
    producer_id, producer_epoch, coordinator_epoch = given
    with _failing(f"Failed to abort the transaction of producer {producer_id} in {_named(partition)}"):
        await admin.abort_transaction(
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )


async def _producer_of(admin: Admin, partition: TopicPartition, start_offset: int) -> ProducerDescription:
    """The producer whose open transaction starts at the offset. Raises ToolExit."""
    with _failing(f"Failed to validate producer state for partition {_named(partition)}"):
        found = (await admin.describe_producers([partition])).value(partition)
    for producer in found:
        if producer.transaction_start_offset == start_offset:
            return producer
    raise ToolExit(
        1, f"Could not find any open transactions starting at offset {start_offset} on partition {_named(partition)}"
    )


def _producer_given(options: Namespace) -> tuple[int, int, int]:
    """The producer's id and epoch, and the coordinator's epoch. Raises ToolExit."""
    if options.producer_id is None:
        raise ToolExit(
            1,
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)",
        )
    for value, name in ((options.producer_epoch, "producer"), (options.coordinator_epoch, "coordinator")):
        if value is None:
            raise ToolExit(1, f"Missing required argument --{name}-epoch")
    return options.producer_id, options.producer_epoch, options.coordinator_epoch


async def _find_hanging(admin: Admin, options: Namespace) -> None:
    if options.topic is None and options.broker_id is None:
        raise ToolExit(
            1,
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search",
        )
    if options.partition is not None and options.topic is None:
        raise ToolExit(1, "The --partition argument requires --topic to be provided")
    partitions = await _searched(admin, options)
    with _failing("Failed to find hanging transactions"):
        found = await admin.find_hanging_transactions(
            partitions,
            broker_id=options.broker_id,
            max_transaction_timeout_ms=options.max_transaction_timeout * _MINUTE_MS,
        )
    _print(_HANGING, map(_hanging_row, found))


async def _searched(admin: Admin, options: Namespace) -> list[TopicPartition]:
    """The partitions to search. Raises ToolExit."""
    if options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    with _failing("Failed to describe topics"):
        return await partitions_to_search(admin, options.topic, options.broker_id)


def _hanging_row(found: HangingTransaction) -> Sequence[object]:
    producer = found.producer
    return (
        *(found.partition.topic, found.partition.partition, producer.producer_id, producer.epoch),
        *(producer.coordinator_epoch, producer.transaction_start_offset, producer.last_timestamp_ms),
        (int(time.time() * 1000) - producer.last_timestamp_ms) // _MINUTE_MS,
    )


async def _terminate(admin: Admin, options: Namespace) -> None:
    name = options.transactionalId
    with _failing(f"Failed to force terminate transactionalId `{name}`"):
        (await admin.fence_producers([name])).raise_first()


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Turns errors of the cluster into the tool's message. Raises ToolExit."""
    try:
        yield
    except (KafkaError, ClientError) as error:
        text = message_of(error)
        raise ToolExit(1, f"{what}: {text}. Enable debug logging for additional detail.") from error


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _print(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table in which each cell is padded to its column's width and followed by a tab."""
    cells = [list(headings), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print_text("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
