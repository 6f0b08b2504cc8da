"""Reads a range of offsets in a task, as Arrow record batches."""

import time
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
from broker.spark.task_attempts import share_of_attempt

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
    without a record; when Spark repeats the task, half as long as the time before. Raises TimeoutError after that;
    DataLoss where records are gone, unless failOnDataLoss is false.
    """
    policy = DataLossPolicy(options.fails_on_data_loss)
    settings = {**_DEFAULTS, **client_settings(options.client_config, ConsumerConfig), **_DECIDED}
    start, refusals = whole.start, 0
    while start < whole.end:
        try:
            with CONSUMERS.lend(settings) as consumer:
                yield from _read(consumer, whole, start, columns, options)
            return
        except OffsetOutOfRange as lost:
            at = lost.offset or start
            refusals = refusals + 1 if at == start else 1
            start = at
            # A leader that was replaced, and does not know it yet, lacks the last records: it is looked up again.
            log_start, log_end = _log_range(whole, settings)
            if start < log_start:
                start = min(policy.start_within(whole.topic_partition, start, log_start), whole.end)
            elif refusals < options.fetch_offset_retries:
                time.sleep(options.fetch_offset_retry_interval_ms / 1000)
            else:
                policy.report(
                    f"Could not read records in offset [{start}, {whole.end}) for topic partition "
                    f"{named(whole.topic_partition)}: its log ends at {log_end}."
                )
                return
        except TopicDeleted as error:
            policy.report(f"{error}.")
            return


def _read(
    consumer: SyncConsumer, whole: OffsetRange, start: int, columns: Sequence[str], options: ReadOptions
) -> Iterator[Any]:
    timeout_ms = options.poll_timeout_ms * share_of_attempt()
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
        raise TimeoutError(f"Cannot fetch records of {whole.topic} in {timeout_ms:g} milliseconds: {error}") from error


def _log_range(whole: OffsetRange, settings: dict[str, object]) -> tuple[int, int]:
    """Where the partition's log starts and ends, by the leader that the brokers name now."""
    partition = whole.topic_partition
    with CONSUMERS.lend(settings) as consumer:
        consumer.partitions_for(whole.topic)
        return consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]


def _as_spark_types(batch: Any) -> Any:
    """The batch with its headers, if it has some, in Spark's type. Nothing is copied."""
    index = batch.schema.get_field_index("headers")
    if index < 0:
        return batch
    return batch.set_column(index, pa.field("headers", _HEADERS_TYPE), batch.column(index).cast(_HEADERS_TYPE))
