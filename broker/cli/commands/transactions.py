"""`kraft transactions`: see transactions and the producers of partitions, find and abort hanging transactions."""

import time
from collections.abc import Sequence

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Exit, Invocation
from broker.cli.grammar.arguments import INT16_MAX, INT32_MAX, Integer, Parsed
from broker.cli.grammar.partitions import partitions_to_search
from broker.cli.grammar.units import format_duration_ms, format_time_ms, is_digits, parse_duration_ms
from broker.cli.output import Column, list_of
from broker.client.admin import Admin, HangingTransaction, ProducerDescription
from broker.client.types import TopicPartition


def _parse_milliseconds(text: str) -> int:
    """A duration whose number alone is milliseconds, as `kafka-transactions` has it. Raises ValueError."""
    return parse_duration_ms(f"{text}ms" if is_digits(text.strip()) else text)


def _parse_minutes(text: str) -> int:
    """Milliseconds of a duration whose number alone is minutes, as in `kafka-transactions`. Raises ValueError."""
    return parse_duration_ms(f"{text}m" if is_digits(text.strip()) else text)


MILLISECONDS = Parsed("duration", _parse_milliseconds)
MINUTES = Parsed("duration", _parse_minutes)


@attrs.frozen
class TransactionRow:
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@attrs.frozen
class DescribedTransaction:
    """A transactional id. `start_ms` is when its last transaction began, in ms since 1970; null if none has.

    `partitions` are those of the open transaction.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: list[str]


@attrs.frozen
class ProducerRow:
    """A producer that a partition knows. `start_offset` is null unless it has a transaction open there."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None


@attrs.frozen
class HangingRow:
    """A transaction that a partition has open, and that no coordinator will end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


@attrs.frozen
class AbortedTransaction:
    """A transaction that was aborted in a partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


@attrs.frozen
class TerminatedTransaction:
    """A transactional id whose producer was fenced."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


TRANSACTION_COLUMNS: Sequence[Column[TransactionRow]] = (
    Column("transactional id", lambda row: row.transactional_id),
    Column("coordinator", lambda row: row.coordinator, is_number=True),
    Column("producer id", lambda row: row.producer_id, is_number=True),
    Column("state", lambda row: row.state, style=lambda row: "yellow" if row.state == "Ongoing" else ""),
)
PRODUCER_COLUMNS: Sequence[Column[ProducerRow]] = (
    Column("producer id", lambda row: row.producer_id, is_number=True),
    Column("epoch", lambda row: row.producer_epoch, is_number=True),
    Column("coordinator epoch", lambda row: row.coordinator_epoch, is_number=True),
    Column("last sequence", lambda row: row.last_sequence, is_number=True),
    Column("last record", lambda row: format_time_ms(row.last_timestamp_ms)),
    Column("transaction from", lambda row: "-" if row.start_offset is None else row.start_offset, is_number=True),
)
HANGING_COLUMNS: Sequence[Column[HangingRow]] = (
    Column("topic", lambda row: row.topic),
    Column("partition", lambda row: row.partition, is_number=True),
    Column("start offset", lambda row: row.start_offset, is_number=True),
    Column("producer id", lambda row: row.producer_id, is_number=True),
    Column("epoch", lambda row: row.producer_epoch, is_number=True),
    Column("coordinator epoch", lambda row: row.coordinator_epoch, is_number=True),
    Column("last record", lambda row: format_time_ms(row.last_timestamp_ms)),
)


@click.group("transactions", cls=CommandGroup)
def transactions() -> None:
    """See transactions and the producers of partitions, find and abort hanging transactions."""


@transactions.command("list", cls=ClusterCommand, shape=list_of(TransactionRow))
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state, as Ongoing or Empty.")
@click.option(
    "--producer-id", "producer_ids", type=Integer(), multiple=True, metavar="ID", help="Only of this producer."
)
@click.option(
    "--duration-filter",
    type=MILLISECONDS,
    metavar="DURATION",
    help="Only if the last transaction began longer ago than this: 30s, 5m, or milliseconds.",
)
@click.option("--transactional-id-pattern", metavar="REGEX", help="Only if the whole id matches (KIP-1152).")
async def list_transactions(
    invocation: Invocation,
    states: Sequence[str],
    producer_ids: Sequence[int],
    duration_filter: int | None,
    transactional_id_pattern: str | None,
) -> None:
    """List transactional ids and the states of their transactions."""
    async with invocation.admin() as admin:
        results = await admin.list_transactions(
            states=states,
            producer_ids=producer_ids,
            open_for_ms=duration_filter,
            transactional_id_pattern=transactional_id_pattern,
        )
    listed = invocation.succeeded(results, "broker")
    rows = [
        TransactionRow(each.transactional_id, coordinator, each.producer_id, each.state)
        for coordinator, found in listed.items()
        for each in found
    ]
    rows.sort(key=lambda row: row.transactional_id)
    if rows or not invocation.exit_code:
        invocation.printer.rows(rows, TRANSACTION_COLUMNS, empty="There are no such transactions.")


@transactions.command("describe", cls=ClusterCommand, shape=list_of(DescribedTransaction))
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--transactional-id", "more", multiple=True, metavar="ID", help="As an ID; may be repeated.")
async def describe(invocation: Invocation, ids: Sequence[str], more: Sequence[str]) -> None:
    """Show the transactions of transactional ids: their producers, and the partitions they write to."""
    names = (*ids, *more)
    if not names:
        raise click.UsageError("Name a transactional id.", click.get_current_context())
    async with invocation.admin() as admin:
        found = invocation.succeeded(await admin.describe_transactions(names), "transactional id")
    shown = [
        DescribedTransaction(
            each.transactional_id,
            each.coordinator_id,
            each.producer_id,
            each.producer_epoch,
            each.state,
            each.timeout_ms,
            each.start_ms,
            [f"{partition.topic}-{partition.partition}" for partition in sorted(each.partitions)],
        )
        for each in found.values()
    ]
    if invocation.printer.is_json:
        invocation.printer.json(shown)
        return
    for line in (line for each in shown for line in _lines(each)):
        invocation.printer.say(line)


@transactions.command("describe-producers", cls=ClusterCommand, shape=list_of(ProducerRow))
@click.option("--topic", required=True, metavar="TOPIC", help="The topic.")
@click.option("--partition", type=Integer(0, INT32_MAX), required=True, metavar="N", help="The partition.")
@click.option("--broker-id", type=Integer(0, INT32_MAX), metavar="ID", help="Ask this replica instead of the leader.")
async def describe_producers(invocation: Invocation, topic: str, partition: int, broker_id: int | None) -> None:
    """Show the producers that a partition knows, and their open transactions there."""
    place = TopicPartition(topic, partition)
    async with invocation.admin() as admin:
        results = await admin.describe_producers([place], broker_id=broker_id)
    found = invocation.succeeded(results, "partition").get(place, [])
    rows = [
        ProducerRow(
            each.producer_id,
            each.epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.transaction_start_offset,
        )
        for each in sorted(found)
    ]
    if rows or not invocation.exit_code:
        invocation.printer.rows(rows, PRODUCER_COLUMNS, empty=f"{topic}-{partition} knows no producers.")


@transactions.command("find-hanging", cls=ClusterCommand, shape=list_of(HangingRow))
@click.option("--broker-id", type=Integer(0, INT32_MAX), metavar="ID", help="Search the partitions of this broker.")
@click.option("--topic", metavar="TOPIC", help="Search this topic.")
@click.option("--partition", type=Integer(0, INT32_MAX), metavar="N", help="Search this partition of --topic.")
@click.option(
    "--max-transaction-timeout",
    type=MINUTES,
    default="15m",
    metavar="DURATION",
    help="Only transactions without a record for longer: 15m, or minutes; default 15m.",
)
async def find_hanging(
    invocation: Invocation,
    broker_id: int | None,
    topic: str | None,
    partition: int | None,
    max_transaction_timeout: int,
) -> None:
    """Find transactions that partitions have open and that no coordinator will end.

    All partitions are searched, or those of --topic and --broker-id. Consumers with read_committed do not get past
    such a transaction; `kraft transactions abort` ends it. Give --max-transaction-timeout where
    transaction.max.timeout.ms of the brokers is not 15 minutes.
    """
    context = click.get_current_context()
    if topic is None and partition is not None:
        raise click.UsageError("--partition needs --topic.", context)
    async with invocation.admin() as admin:
        if topic is not None and partition is not None:
            places = [TopicPartition(topic, partition)]
        else:
            places = await partitions_to_search(admin, topic, broker_id)
        found = await admin.find_hanging_transactions(
            places, broker_id=broker_id, max_transaction_timeout_ms=max_transaction_timeout
        )
    rows = sorted(map(_hanging_row, found), key=lambda row: (row.topic, row.partition, row.start_offset))
    invocation.printer.rows(rows, HANGING_COLUMNS, empty="No transaction hangs.")
    for row in rows:
        invocation.printer.say(
            f"To end it: kraft transactions abort --topic {row.topic} --partition {row.partition} --start-offset"
            f" {row.start_offset}"
        )


@transactions.command("abort", cls=ClusterCommand, shape=list_of(AbortedTransaction))
@click.option("--topic", required=True, metavar="TOPIC", help="The topic.")
@click.option("--partition", type=Integer(0, INT32_MAX), required=True, metavar="N", help="The partition.")
@click.option("--start-offset", type=Integer(0), metavar="OFFSET", help="Where the transaction starts.")
@click.option("--producer-id", type=Integer(0), metavar="ID", help="Without --start-offset: its producer id.")
@click.option("--producer-epoch", type=Integer(0, INT16_MAX), metavar="N", help="The producer's epoch.")
@click.option("--coordinator-epoch", type=Integer(-1, INT32_MAX), metavar="N", help="The coordinator's epoch.")
async def abort(
    invocation: Invocation,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a hanging transaction in one partition.

    It is found by --start-offset, or named by --producer-id, --producer-epoch and --coordinator-epoch, as
    `kraft transactions find-hanging` prints them. A transaction that does not hang would be torn by this.
    """
    place = TopicPartition(topic, partition)
    named = _named(producer_id, producer_epoch, coordinator_epoch)
    if start_offset is None and named is None:
        raise click.UsageError(
            "Give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch.",
            click.get_current_context(),
        )
    async with invocation.admin() as admin:
        if start_offset is not None:
            found = await _producer_of(admin, place, start_offset)
            named = (found.producer_id, found.epoch, found.coordinator_epoch)
        assert named is not None, "without an offset it is named by its epochs"
        await _check_open(admin, place, named[0])
        await admin.abort_transaction(place, producer_id=named[0], producer_epoch=named[1], coordinator_epoch=named[2])
    invocation.printer.each(
        [AbortedTransaction(topic, partition, named[0], named[1])],
        lambda row: f"Aborted the transaction of producer {row.producer_id} in {topic}-{partition}.",
    )


@transactions.command("terminate", cls=ClusterCommand, shape=list_of(TerminatedTransaction))
@click.argument("ids", nargs=-1, required=True)
async def terminate(invocation: Invocation, ids: Sequence[str]) -> None:
    """Abort the open transactions of transactional ids, prepared ones too, and fence their producers."""
    async with invocation.admin() as admin:
        results = await admin.fence_producers(ids)
    done = [
        TerminatedTransaction(name, given.producer_id, given.epoch)
        for name, given in invocation.succeeded(results, "transactional id").items()
    ]
    invocation.printer.each(done, lambda row: f"Terminated the transaction of {row.transactional_id}.")


def _named(
    producer_id: int | None, producer_epoch: int | None, coordinator_epoch: int | None
) -> tuple[int, int, int] | None:
    """The producer's id and epoch and the coordinator's epoch, if all are given."""
    if producer_id is None or producer_epoch is None or coordinator_epoch is None:
        return None
    return producer_id, producer_epoch, coordinator_epoch


async def _check_open(admin: Admin, place: TopicPartition, producer_id: int) -> None:
    """Raises CommandFailed if the producer has no transaction open in the partition; KafkaError."""
    found = (await admin.describe_producers([place])).value(place)
    if all(each.producer_id != producer_id or each.transaction_start_offset is None for each in found):
        raise CommandFailed(
            f"Producer {producer_id} has no open transaction in {place.topic}-{place.partition}; nothing was aborted",
            Exit.NOT_FOUND,
        )


async def _producer_of(admin: Admin, place: TopicPartition, start_offset: int) -> ProducerDescription:
    """The producer whose transaction in the partition starts at the offset. Raises KafkaError, CommandFailed."""
    found = (await admin.describe_producers([place])).value(place)
    for producer in found:
        if producer.transaction_start_offset == start_offset:
            return producer
    raise CommandFailed(
        f"No open transaction starts at offset {start_offset} in {place.topic}-{place.partition}; "
        "`kraft transactions describe-producers` shows where they start",
        Exit.NOT_FOUND,
    )


def _lines(shown: DescribedTransaction) -> list[str]:
    lines = [
        f"Transactional id {shown.transactional_id}: {shown.state}, producer {shown.producer_id} epoch "
        f"{shown.producer_epoch}, timeout {format_duration_ms(shown.timeout_ms)}, coordinator {shown.coordinator}"
    ]
    if shown.start_ms is not None:
        age_ms = max(0, int(time.time() * 1000) - shown.start_ms)
        lines.append(f"  last transaction began {format_time_ms(shown.start_ms)}, {format_duration_ms(age_ms)} ago")
    if shown.partitions:
        lines.append(f"  partitions {' '.join(shown.partitions)}")
    return lines


def _hanging_row(found: HangingTransaction) -> HangingRow:
    producer = found.producer
    assert producer.transaction_start_offset is not None, "it is open"
    return HangingRow(
        found.partition.topic,
        found.partition.partition,
        producer.producer_id,
        producer.epoch,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
        producer.last_timestamp_ms,
    )
