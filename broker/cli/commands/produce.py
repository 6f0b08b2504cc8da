"""`kraft produce`: write records from lines, files or JSON."""

from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import click

from broker.cli.commands.produce_input import (
    LineForm,
    is_interactive,
    parse_header,
    read_lines,
    read_whole_files,
    unescape,
)
from broker.cli.grammar import ClusterCommand, CommandFailed, Invocation
from broker.cli.grammar.arguments import INT32_MAX, Integer, Parsed
from broker.cli.grammar.clients import open_producer
from broker.cli.grammar.completion import complete_topic
from broker.cli.grammar.partitions import NoSuchPartition
from broker.cli.grammar.units import format_count
from broker.cli.output import lines_of
from broker.cli.output.record_json import RecordToProduce
from broker.client.producer.batch import OnDelivery
from broker.client.producer.buffer_memory import BufferFull, RecordTooLarge
from broker.client.producer.producer import Producer
from broker.client.producer.record_arguments import BadPartition
from broker.client.types import Header, RecordMetadata

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@attrs.frozen
class WrittenRecord:
    """Where a record was written. `offset` is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


SEPARATOR: Parsed[bytes] = Parsed("separator", unescape)
HEADER: Parsed[Header] = Parsed("header", parse_header)


@click.command("produce", cls=ClusterCommand, shape=lines_of(WrittenRecord))
@click.argument("topic", shell_complete=complete_topic)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("-k", "--key", metavar="KEY", help="The key of all records.")
@click.option("-K", "--key-separator", type=SEPARATOR, metavar="TEXT", help="The separator of a line's key and value.")
@click.option(
    "-H", "--header", "headers", multiple=True, type=HEADER, metavar="NAME=VALUE", help="A header of all records."
)
@click.option(
    "--header-separator", type=SEPARATOR, metavar="TEXT", help="The end of the headers (a=b,c=d) before a key."
)
@click.option(
    "-d", "--delimiter", type=SEPARATOR, default="\\n", metavar="TEXT", help="The end of a line; default \\n."
)
@click.option("--null", type=SEPARATOR, metavar="TEXT", help="A key or value of this text is null.")
@click.option("-p", "--partition", type=Integer(0, INT32_MAX), metavar="N", help="The partition of all records.")
@click.option("--whole", is_flag=True, help="Each of FILES is one record.")
@click.option("--from-json", is_flag=True, help="Each line is a record as `kraft consume --json` prints it.")
@click.option("-z", "--compression", type=click.Choice(_COMPRESSIONS), help="How batches are compressed.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    help="Replicas that must acknowledge a record: 0, 1 or all; default all.",
)
@click.option(
    "--transactional-id", metavar="ID", help="Write all records in one transaction, which is committed at the end."
)
async def produce(
    invocation: Invocation,
    topic: str,
    files: Sequence[str],
    whole: bool,
    compression: str | None,
    acks: str | None,
    transactional_id: str | None,
    **form: Any,
) -> None:
    """Write records to a topic, one for each line of FILES or of standard input.

    \b
    seq 10 | kraft produce numbers
    kraft produce orders -K : < orders.txt
    kraft consume orders -e --json | kraft produce copy --from-json
    """
    configs = {"compression.type": compression, "acks": acks, "transactional.id": transactional_id}
    records = _records(invocation, files, whole, form)
    async with open_producer(invocation.cluster(), configs) as producer:
        is_transactional = producer.config.transactional_id is not None
        async with producer.transaction() if is_transactional else nullcontext():
            partitions = KnownPartitions(invocation, producer, topic)
            written = await _write(invocation, producer, partitions, records, form["partition"])
    if not invocation.printer.is_json:
        invocation.printer.note(f"kraft: {format_count(written, 'record')} written to {topic}")


async def _records(
    invocation: Invocation, files: Sequence[str], whole: bool, form: dict[str, Any]
) -> AsyncIterator[RecordToProduce]:
    """The records to write; a line that is none is reported, and left out. Raises OSError, CommandFailed."""
    key = None if form["key"] is None else form["key"].encode()
    if whole:
        if not files:
            raise CommandFailed("--whole needs FILES.")
        for content in read_whole_files(files):
            yield RecordToProduce(key, content, form["headers"], None, None)
        return
    line_form = LineForm(
        delimiter=form["delimiter"],
        key_separator=form["key_separator"],
        header_separator=form["header_separator"],
        null=form["null"],
        is_json=form["from_json"],
    )
    if not files and is_interactive():
        invocation.printer.note("kraft: type records, one a line; Ctrl-D ends")
    number = 0
    async for line in read_lines(files, line_form.delimiter):
        number += 1
        try:
            record = line_form.read(line)
        except ValueError as error:
            invocation.fail(CommandFailed(f"{error}; the line is skipped"), f"line {number}")
            continue
        yield record._replace(key=record.key if key is None else key, headers=[*form["headers"], *record.headers])


async def _write(
    invocation: Invocation,
    producer: Producer,
    partitions: "KnownPartitions",
    records: AsyncIterator[RecordToProduce],
    partition: int | None,
) -> int:
    """Write the records as they come and return their number. A record that is refused is reported.

    In a transaction, a record that is refused raises its error: all records are written, or none. If the topic lacks
    the partition of all records, that is raised, too.
    """
    written, topic = 0, partitions.topic

    def settle(metadata: RecordMetadata | None, error: Exception | None) -> None:
        nonlocal written
        if metadata is None:
            assert error is not None, "a record without metadata has an error"
            invocation.fail(error, topic)
            return
        written += 1
        if invocation.printer.is_json:
            invocation.printer.json(WrittenRecord(*metadata))

    async for record in records:
        try:
            await partitions.check(record.partition if partition is None else partition)
            await _send(producer, topic, record, partition, settle)
        except (RecordTooLarge, BadPartition, NoSuchPartition) as error:
            is_of_all = partition is not None and isinstance(error, NoSuchPartition)
            if is_of_all or producer.config.transactional_id is not None:
                raise
            invocation.fail(error, topic)
    await producer.flush()
    return written


class KnownPartitions:
    """The partitions of the topic that is written to. A producer waits for one that the topic may get yet, as Kafka's
    does, for `max.block.ms`; a person who has mistyped its number should not wait.
    """

    def __init__(self, invocation: Invocation, producer: Producer, topic: str) -> None:
        self.topic = topic
        self._invocation = invocation
        self._producer = producer
        self._count = 0

    async def check(self, partition: int | None) -> None:
        """Raises NoSuchPartition if the topic exists without this partition. Raises ClientError, KafkaError."""
        if partition is None or partition < self._count:
            return
        self._count = len(await self._producer.partitions_for(self.topic))
        if partition >= self._count:  # the producer's metadata may be old
            async with self._invocation.admin() as admin:
                described = (await admin.describe_topics([self.topic])).raise_first()
            self._count = len(described[self.topic].partitions)
        if partition >= self._count:
            raise NoSuchPartition(self.topic, partition, self._count)


async def _send(
    producer: Producer, topic: str, record: RecordToProduce, partition: int | None, on_delivery: OnDelivery
) -> None:
    """Pass a record to the producer, once the buffer has room for it. Raises ClientError, KafkaError."""
    while True:
        try:
            producer.send_soon(
                topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition if partition is None else partition,
                timestamp_ms=record.timestamp_ms,
                on_delivery=on_delivery,
            )
        except BufferFull:
            await producer.wait_for_room()
        else:
            return
