"""Records are written exactly once and in order per partition while brokers are killed."""

import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest
import trio

from broker.client import BufferFull, Producer, RecordMetadata, TopicPartition
from broker.client.cluster import Cluster
from broker.client.config import ClientConfig, read_config
from broker.client.open_cluster import open_cluster
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.confluent_driver import create_replicated_topic
from tests.support.produced import read_all
from tests.support.running_cluster import TIMEOUTS

TOPIC = "orders"
PARTITIONS = 6
REPLICAS = 3
NUMBER = struct.Struct(">Q")
PADDING = bytes(92)
WITHIN_S = 180.0
# Small, so that a dead leader stops the load at once instead of filling the buffer.
BUFFER_BYTES = 1_000_000


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ClusterProcess]:
    with new_cluster(tmp_path, overrides=TIMEOUTS) as cluster:
        await trio.to_thread.run_sync(cluster.start)
        await trio.to_thread.run_sync(create_replicated_topic, cluster.bootstrap, TOPIC, PARTITIONS, REPLICAS)
        yield cluster


class NumberedLoad:
    """Sends numbered records, each to the partition of its number, and records the offset of each."""

    def __init__(self, producer: Producer, count: int) -> None:
        self.producer = producer
        self.count = count
        self.sent = 0
        self.offsets: dict[int, int] = {}
        self.errors: list[Exception] = []

    async def send(self) -> None:
        while self.sent < self.count:
            number = self.sent
            try:
                self.producer.send_soon(
                    TOPIC,
                    NUMBER.pack(number) + PADDING,
                    partition=number % PARTITIONS,
                    on_delivery=self._noting(number),
                )
            except BufferFull:
                await self.producer.wait_for_room()
            else:
                self.sent += 1
        await self.producer.flush()

    def _noting(self, number: int) -> Callable[[RecordMetadata | None, Exception | None], None]:
        def note(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is None:
                assert error is not None
                self.errors.append(error)
            else:
                assert number not in self.offsets
                self.offsets[number] = metadata.offset

        return note


async def test_records_are_written_once_and_in_order_through_leader_kills(
    cluster: ClusterProcess, full: bool, figure: Callable[[str], None]
) -> None:
    count, kills = (1_000_000, 10) if full else (100_000, 2)
    rng = Random(7)
    began = trio.current_time()
    with trio.fail_after(WITHIN_S * (5 if full else 1)):
        async with (
            open_cluster(read_config(ClientConfig, cluster.bootstrap, {"retry.backoff.ms": 20})) as watched,
            Producer(cluster.bootstrap, buffer_memory=BUFFER_BYTES, retry_backoff_ms=20) as producer,
        ):
            load = NumberedLoad(producer, count)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.send)
                for kill in range(kills):
                    while load.sent < count * (kill + 1) // (kills + 1):
                        await trio.sleep(0.001)
                    await kill_a_leader(cluster, watched, rng)
    took = trio.current_time() - began
    assert not load.errors, load.errors[:3]
    assert len(load.offsets) == count
    read = await read_all(cluster.bootstrap, TOPIC, PARTITIONS)
    for partition, records in read.items():
        numbers = [NUMBER.unpack_from(record.value or b"")[0] for record in records]
        assert numbers == list(range(partition, count, PARTITIONS))
        # A batch that the leader already has, but no longer remembers, is acknowledged without an offset.
        acknowledged = [load.offsets[number] for number in numbers]
        assert all(told in (record.offset, -1) for told, record in zip(acknowledged, records, strict=True))
    figure(f"{count} records, {kills} leaders killed, {took:.1f} s")


async def kill_a_leader(cluster: ClusterProcess, watched: Cluster, rng: Random) -> None:
    """Kill a broker that leads partitions, restart it when others lead them, and wait until it is in sync."""
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    await until(watched, lambda: all(watched.metadata.leader(each) is not None for each in partitions))
    leader = watched.metadata.leader(rng.choice(partitions))
    assert leader is not None
    victim, _ = leader

    def is_led_by_others() -> bool:
        leaders = [watched.metadata.leader(each) for each in partitions]
        return all(leader is not None and leader[0] != victim for leader in leaders)

    def is_in_sync() -> bool:
        described = [watched.metadata.partition(each) for each in partitions]
        return all(partition is not None and len(partition.isr) == REPLICAS for partition in described)

    await trio.to_thread.run_sync(cluster.nodes[victim].kill)
    await until(watched, is_led_by_others)
    await trio.to_thread.run_sync(cluster.nodes[victim].start)
    await until(watched, is_in_sync)


async def until(watched: Cluster, holds: Callable[[], bool]) -> None:
    while True:
        await watched.retried(lambda: watched.refresh([TOPIC]), timeout_ms=30_000)
        if holds():
            return
        await trio.sleep(0.02)
