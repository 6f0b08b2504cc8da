"""Reads a range of offsets in a task, as Arrow record batches."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from broker.client import OffsetOutOfRange, SyncConsumer, TimedOut, TopicDeleted
from broker.client.consumer.config import ConsumerConfig
from broker.spark.clients import CONSUMERS
from broker.spark.data_loss import DataLossPolicy
from broker.spark.offsets import named
from broker.spark.options import ReadOptions, client_settings
from broker.spark.ranges import OffsetRange

# Config values of a task's consumer, unless the query sets the keys. Large responses cost less per record than Kafka's
# default of 1 MiB; the buffer bounds what is fetched ahead of Spark.
_DEFAULTS: Final = {"max.partition.fetch.bytes": 4 << 20, "fetch.buffer.bytes": 16 << 20}
# A task creates no topic that was deleted since the query was planned.
_DECIDED: Final = {"allow.auto.create.topics": False}
# Spark compares types exactly. Its type has nullable elements and keys, as the schema of its own connector does.
_HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


def read_range(whole: OffsetRange, columns: Sequence[str], options: ReadOptions) -> Iterator[Any]:
    """The records of a range as pyarrow RecordBatches of these columns, in the order of their offsets.

    A broker that is killed, and a leader that moves, are waited for within the task, up to kafkaConsumer.pollTimeoutMs
    without a record. Raises TimeoutError after that; DataLoss where records are gone, unless failOnDataLoss is false.
    """
    policy = DataLossPolicy(options.fails_on_data_loss)
    settings = {**_DEFAULTS, **client_settings(options.client_config, ConsumerConfig), **_DECIDED}
    start = whole.start
    while start < whole.end:
        try:
            with CONSUMERS.lend(settings) as consumer:
                yield from _read(consumer, whole, start, columns, options)
            return
        except OffsetOutOfRange as lost:
            start = _after_loss(lost, whole, settings, policy)
        except TopicDeleted as error:
            policy.report(f"{error}.")
            return


def _read(
    consumer: SyncConsumer, whole: OffsetRange, start: int, columns: Sequence[str], options: ReadOptions
) -> Iterator[Any]:
    timeout_ms = options.poll_timeout_ms
    try:
        for batch in consumer.read_range(
            whole.topic_partition,
            start,
            whole.end,
            columns=columns,
            topic_id=whole.topic_id,
            timeout_s=timeout_ms / 1000,
        ):
            yield _as_spark_types(batch)
    except TimedOut as error:
        raise TimeoutError(f"Cannot fetch records of {whole.topic} in {timeout_ms} milliseconds: {error}") from error


def _after_loss(lost: OffsetOutOfRange, whole: OffsetRange, settings: dict[str, object], policy: DataLossPolicy) -> int:
    """The offset to go on at after one that is out of the log; the range's end if there is nothing more to read."""
    partition, at = whole.topic_partition, lost.offset or whole.start
    with CONSUMERS.lend(settings) as consumer:
        log_start = consumer.beginning_offsets([partition])[partition]
    if at < log_start:
        return min(policy.start_within(partition, at, log_start), whole.end)
    policy.report(
        f"Could not read records in offset [{at}, {whole.end}) for topic partition {named(partition)}: {lost}."
    )
    return whole.end


def _as_spark_types(batch: Any) -> Any:
    """The batch with its headers, if it has some, in Spark's type. Nothing is copied."""
    index = batch.schema.get_field_index("headers")
    if index < 0:
        return batch
    return batch.set_column(index, pa.field("headers", _HEADERS_TYPE), batch.column(index).cast(_HEADERS_TYPE))
