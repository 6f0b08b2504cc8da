"""A topic of a running node, filled with numbered records for consumers to read."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from broker.client.consumer.consumer import Consumer
from broker.client.types import ConsumerRecord, TopicPartition
from broker.wire.records import Record, encode_batch
from tests.support.requests import create_topic, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected

ZERO = TopicPartition("topic", 0)
ONE = TopicPartition("topic", 1)
WITHIN_S = 10.0


@asynccontextmanager
async def node_with_topic(directory: Path, *, partitions: int = 2, **overrides: object) -> AsyncIterator[RunningNode]:
    async with running_node(directory, group_initial_rebalance_delay_ms="0", **overrides) as node:
        async with connected(node.port) as client:
            await create_topic(client, partitions=partitions)
        yield node


def numbered(first: int, count: int, *, timestamp: int = 1_000, **fields: Any) -> bytes:
    """A batch of records with numbers as values, and with timestamps a millisecond apart."""
    records = [Record(timestamp=timestamp + each, value=b"%d" % each) for each in range(first, first + count)]
    return encode_batch(records, base_offset=0, **fields)


async def fill(client: WireClient, count: int, *, first: int = 0, index: int = 0, of: int = 100) -> None:
    """Produce batches of `of` records. Record number n is at offset n if nothing else is produced."""
    for start in range(first, first + count, of):
        part = await produce(client, numbered(start, min(of, first + count - start)), index=index)
        assert part.error_code == 0


async def fill_node(port: int, count: int, **fields: Any) -> None:
    async with connected(port) as client:
        await fill(client, count, **fields)


@asynccontextmanager
async def consuming(
    port: int, partitions: Sequence[TopicPartition] = (ZERO,), **settings: Any
) -> AsyncIterator[Consumer]:
    """A consumer with these partitions assigned, from the beginning by default."""
    settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "reconnect_backoff_ms": 10, **settings}
    async with Consumer(f"127.0.0.1:{port}", **settings) as consumer:
        consumer.assign(partitions)
        yield consumer


async def fetch_exactly(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Fetch exactly `count` records, with as many polls as necessary."""
    records: list[ConsumerRecord] = []
    with trio.fail_after(WITHIN_S):
        while len(records) < count:
            records += await consumer.fetch(count - len(records))
    return records


def values(records: Sequence[ConsumerRecord]) -> list[int]:
    """The numbers of numbered records."""
    return [int(record.value or b"-1") for record in records]
