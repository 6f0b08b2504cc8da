"""Tables are written to a running node and read back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import trio
import trio.testing

from broker.client import Admin, NewPartitions, Producer
from broker.client.arrow.records import ArrowRecords
from broker.client.arrow.schema import HEADERS_TYPE
from broker.client.errors import ClosedError, KafkaError
from broker.client.producer.accumulator import Accumulator, AccumulatorLimits
from broker.client.producer.buffer_memory import BufferMemory, RecordTooLarge
from broker.client.producer.compression_ratio import CompressionRatios
from broker.client.producer.partitioners import KeyHashes
from broker.client.producer.record_arguments import BadPartition
from broker.client.producer.routing import PartitionChoice, TopicRouting
from broker.client.types import TopicPartition
from tests.support.requests import create_topic
from tests.support.running_node import RunningNode, running_node
from tests.support.topics_for_consumers import WITHIN_S, consuming
from tests.support.wire_client import connected

PARTITIONS = 4
Rows = list[dict[str, Any]]


@asynccontextmanager
async def node_with_topics(directory: Path, **overrides: object) -> AsyncIterator[RunningNode]:
    async with running_node(directory, **overrides) as node:
        async with connected(node.port) as client:
            for name in ("orders", "returns"):
                await create_topic(client, name, partitions=PARTITIONS)
        yield node


@asynccontextmanager
async def producing(port: int, **settings: Any) -> AsyncIterator[Producer]:
    async with Producer(f"127.0.0.1:{port}", retry_backoff_ms=10, **settings) as producer:
        with trio.fail_after(WITHIN_S):
            yield producer


async def read_back(port: int, offsets: dict[TopicPartition, list[range]]) -> dict[TopicPartition, Rows]:
    """The rows at these offsets; the partitions have no others."""
    count = sum(len(each) for ranges in offsets.values() for each in ranges)
    found: dict[TopicPartition, Rows] = {partition: [] for partition in offsets}
    columns = ["topic", "partition", "offset", "key", "value", "timestamp", "headers"]
    async with consuming(port, sorted(offsets)) as consumer:
        with trio.fail_after(WITHIN_S):
            while count > 0:
                table = await consumer.fetch_arrow(columns=columns)
                table = table.set_column(5, "timestamp", table.column("timestamp").cast(pa.int64()))
                for row in table.to_pylist():
                    found[TopicPartition(row["topic"], row["partition"])].append(row)
                count -= table.num_rows
        assert await consumer.fetch_arrow(timeout_s=0.05) is not None
    for partition, rows in found.items():
        assert [row["offset"] for row in rows] == [offset for each in offsets[partition] for offset in each]
    return found


async def test_rows_with_keys_go_where_single_records_go_in_their_order(tmp_path: Path) -> None:
    keys = [b"key-%d" % (n % 37) for n in range(500)]
    values = [b"%d" % n for n in range(500)]
    async with node_with_topics(tmp_path) as node, producing(node.port) as producer:
        offsets = await producer.produce_arrow("orders", pa.table({"key": keys, "value": values}))
        found = await read_back(node.port, offsets)
        for partition, rows in found.items():
            numbers = [int(row["value"]) for row in rows]
            assert numbers == sorted(numbers)
            assert [row["key"] for row in rows] == [keys[number] for number in numbers]
            sent = await producer.send("orders", key=rows[0]["key"])
            assert (sent.partition, sent.offset) == (partition.partition, len(rows))
        assert sorted(int(row["value"]) for rows in found.values() for row in rows) == list(range(500))


async def test_all_columns_are_written(tmp_path: Path) -> None:
    rows = [
        {
            "topic": ("orders", "returns")[n % 2],
            "partition": n % PARTITIONS,
            "key": None if n % 3 else b"k",
            "value": None if n % 5 == 4 else b"%d" % n,
            "timestamp": 1_000 + n,
            "headers": [{"key": "a", "value": None}, {"key": "b", "value": b"%d" % n}][: n % 3] or None,
        }
        for n in range(40)
    ]
    schema = pa.schema(
        [
            *(("topic", pa.string()), ("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary())),
            *(("timestamp", pa.int64()), ("headers", HEADERS_TYPE)),
        ]
    )
    async with node_with_topics(tmp_path) as node, producing(node.port) as producer:
        offsets = await producer.produce_arrow(None, pa.Table.from_pylist(rows, schema))
        assert offsets == {TopicPartition(rows[n]["topic"], n): [range(10)] for n in range(PARTITIONS)}
        found = await read_back(node.port, offsets)
        for (topic, partition), written in found.items():
            expected = [row for row in rows if (row["topic"], row["partition"]) == (topic, partition)]
            assert written == [
                {**row, "timestamp": 1_000 * row["timestamp"], "offset": offset} for offset, row in enumerate(expected)
            ]


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_a_table_larger_than_the_buffer_is_written_once_in_batches(tmp_path: Path, compression: str) -> None:
    table = pa.table({"value": [b"%0300d" % n for n in range(20_000)]})
    settings: dict[str, Any] = {"compression_type": compression, "buffer_memory": 2 << 20}
    async with node_with_topics(tmp_path) as node, producing(node.port, **settings) as producer:
        offsets = await producer.produce_arrow("orders", table)
        assert [len(ranges) for ranges in offsets.values()] == [1] * len(offsets)
        found = await read_back(node.port, offsets)
        for rows in found.values():
            numbers = [int(row["value"]) for row in rows]
            assert numbers == sorted(numbers)
        assert sorted(int(row["value"]) for rows in found.values() for row in rows) == list(range(20_000))


async def test_rows_come_after_the_records_sent_before_and_before_those_after(tmp_path: Path) -> None:
    async with node_with_topics(tmp_path) as node, producing(node.port, linger_ms=5_000) as producer:
        before = producer.send_soon("orders", b"before", partition=0)
        table = pa.table({"value": ["in"] * 3, "partition": [0] * 3})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.produce_arrow, "orders", table)
            await trio.testing.wait_all_tasks_blocked()
            after = producer.send_soon("orders", b"after", partition=0)
            await producer.flush()
        assert ((await before).offset, (await after).offset) == (0, 4)


async def test_batches_that_are_too_large_for_the_topic_are_split(tmp_path: Path) -> None:
    table = pa.table({"value": [b"%0100d" % n for n in range(1_000)], "partition": [1] * 1_000})
    async with node_with_topics(tmp_path, message_max_bytes=20_000) as node, producing(node.port) as producer:
        offsets = await producer.produce_arrow("orders", table)
        assert offsets == {TopicPartition("orders", 1): [range(1_000)]}
        (rows,) = (await read_back(node.port, offsets)).values()
        assert [int(row["value"]) for row in rows] == list(range(1_000))
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.produce_arrow("orders", pa.table({"value": [b"x" * 30_000]}))
        await producer.wait_for_room(producer.config.buffer_memory)  # all memory was released


async def test_a_custom_partitioner_is_asked_about_rows_without_a_partition(tmp_path: Path) -> None:
    def by_value(topic: str, key: bytes | None, value: bytes | None, partitions: Any) -> int:
        return int(value or b"0") % int(partitions.count)

    table = pa.table({"value": ["1", "2", "3"], "partition": [None, None, 0]})
    async with node_with_topics(tmp_path) as node, producing(node.port, partitioner=by_value) as producer:
        offsets = await producer.produce_arrow("orders", table)
        assert offsets == {TopicPartition("orders", number): [range(1)] for number in (0, 1, 2)}


async def test_rows_without_keys_are_spread_over_partitions(tmp_path: Path) -> None:
    table = pa.table({"value": [bytes(1000)] * 20_000})
    async with node_with_topics(tmp_path) as node, producing(node.port, acks=0) as producer:
        offsets = await producer.produce_arrow("orders", table)
        assert len(offsets) > 1
        assert set(map(tuple, offsets.values())) == {()}  # with acks=0 there are no offsets


async def test_partitions_that_were_added_after_the_first_rows_are_found(tmp_path: Path) -> None:
    async with node_with_topics(tmp_path) as node, producing(node.port) as producer:
        await producer.produce_arrow("orders", pa.table({"value": [b"x"]}))
        async with Admin(f"127.0.0.1:{node.port}") as admin:
            (await admin.create_partitions({"orders": NewPartitions(PARTITIONS + 1)})).raise_first()
        written = await producer.produce_arrow("orders", pa.table({"value": [b"x"], "partition": [PARTITIONS]}))
        assert written == {TopicPartition("orders", PARTITIONS): [range(1)]}


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"value": [b"x" * 2_000_000]}, RecordTooLarge, "max.request.size"),
        ({"value": [b"x"], "partition": [PARTITIONS]}, BadPartition, "has no partition 4"),
        ({"value": [b"x"], "partition": [-1]}, ValueError, "a number from 0"),
        ({"value": [b"x"], "partition": ["0"]}, TypeError, "the column partition is a number"),
        ({"value": [1.5]}, TypeError, "the column value is binary or string"),
    ],
)
async def test_rows_that_cannot_be_written_are_refused(
    tmp_path: Path, columns: dict[str, Any], error: type[Exception], message: str
) -> None:
    async with node_with_topics(tmp_path) as node, producing(node.port) as producer:
        with pytest.raises(error, match=message):
            await producer.produce_arrow("orders", pa.table(columns))
        assert await producer.produce_arrow("orders", pa.table({"value": [b"x"]})) != {}


async def test_tables_without_a_topic_and_other_objects_are_refused(tmp_path: Path) -> None:
    async with node_with_topics(tmp_path) as node, producing(node.port) as producer:
        with pytest.raises(ValueError, match="no topic: pass one"):
            await producer.produce_arrow(None, pa.table({"value": [b"x"]}))
        with pytest.raises(ValueError, match="a row has no topic"):
            await producer.produce_arrow(None, pa.table({"topic": ["orders", None]}))
        with pytest.raises(TypeError, match="a pyarrow Table or RecordBatch, not list"):
            await producer.produce_arrow("orders", [b"x"])
        assert await producer.produce_arrow("orders", pa.table({"value": pa.array([], pa.binary())})) == {}
        await producer.close()
        with pytest.raises(ClosedError):
            await producer.produce_arrow("orders", pa.table({"value": [b"x"]}))


def test_a_complete_batch_is_added_though_its_topic_was_forgotten_and_counts_as_its_use() -> None:
    now = 0.0
    accumulator = Accumulator(AccumulatorLimits(), None, CompressionRatios(is_compressing=False), BufferMemory(1_000))
    routing = TopicRouting("orders", accumulator, PartitionChoice(Random(1)), KeyHashes(), lambda: now)
    assert not routing.queues
    now = 100.0
    records = ArrowRecords.of(pa.RecordBatch.from_pydict({"value": ["a", "b"]}), 7)
    batch = routing.add_complete_batch(2, records, 0)
    assert (batch.partition, len(batch.records), batch.created_at) == (TopicPartition("orders", 2), 2, 100.0)
    assert list(accumulator.batches()) == [batch]
    assert not routing.is_idle_since(99.0)
