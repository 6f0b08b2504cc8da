"""Consumers of a cluster whose leaders move, die and lose records, and consumers that read from followers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client import Consumer, LogTruncation
from broker.client.types import ConsumerRecord, OffsetAndMetadata
from tests.support.replicated_topics import create_replicated, send, until_described, until_led_by_another
from tests.support.running_cluster import WITHIN_S, RunningCluster, running_cluster
from tests.support.topics_for_consumers import ZERO, fetch_exactly

FAST = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "fetch_max_wait_ms": 100, "auto_offset_reset": "earliest"}


@asynccontextmanager
async def consuming_from(cluster: RunningCluster, **settings: Any) -> AsyncIterator[Consumer]:
    servers = [f"127.0.0.1:{node.port}" for node in cluster.nodes.values()]
    async with Consumer(servers, **{**FAST, **settings}) as consumer:
        consumer.assign([ZERO])
        yield consumer


def numbers(records: list[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


async def send_numbers(cluster: RunningCluster, first: int, count: int) -> None:
    """Send one record after the other to the leader, each until it is acknowledged."""
    for number in range(first, first + count):
        with trio.fail_after(WITHIN_S):
            while not await _is_sent(cluster, b"%d" % number):
                await trio.sleep(0.02)


async def _is_sent(cluster: RunningCluster, value: bytes) -> bool:
    for node_id, node in cluster.nodes.items():
        if node.is_up:
            try:
                if await send(cluster, node_id, value) == 0:
                    return True
            except (OSError, EOFError, trio.TooSlowError, trio.BrokenResourceError):
                continue
    return False


async def test_every_acknowledged_record_is_read_in_order_while_leaders_are_killed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster)
        await until_described(cluster, 1, isr=(1, 2, 3))
        found: list[int] = []
        async with consuming_from(cluster) as consumer, trio.open_nursery() as nursery:

            async def read() -> None:
                async for record in consumer:
                    number = int(record.value or b"-1")
                    if not found or number > found[-1]:  # a retried send may be duplicated
                        found.append(number)
                    if number == 59:
                        return

            nursery.start_soon(read)
            await send_numbers(cluster, 0, 20)
            await cluster.nodes[1].crash()
            leader = (await until_led_by_another(cluster, 2, 1)).leader_id
            await send_numbers(cluster, 20, 20)
            cluster.start_soon(1)
            await until_described(cluster, leader, isr=(1, 2, 3))
            await cluster.nodes[leader].stop()
            await send_numbers(cluster, 40, 20)
            nursery.cancel_scope.deadline = trio.current_time() + WITHIN_S
        assert found == list(range(60))


async def test_offsets_of_a_topic_that_is_not_assigned_are_found_at_its_new_leader(tmp_path: Path) -> None:
    """Only the metadata of followed topics was refreshed, so that the lookup failed after `default.api.timeout.ms`."""
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster)
        await until_described(cluster, 1, isr=(1, 2, 3))
        await send_numbers(cluster, 0, 3)
        servers = [f"127.0.0.1:{cluster.nodes[node_id].port}" for node_id in (2, 3)]
        async with Consumer(servers, **FAST) as consumer:
            assert await consumer.end_offsets([ZERO]) == {ZERO: 3}
            await cluster.nodes[1].crash()
            await until_led_by_another(cluster, 2, 1)
            assert await consumer.end_offsets([ZERO]) == {ZERO: 3}


async def test_a_consumer_reads_from_the_replica_in_its_rack_and_from_the_leader_without_it_kip_392(
    tmp_path: Path,
) -> None:
    selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    racks = {node_id: {"broker.rack": f"rack-{node_id}"} for node_id in (1, 2, 3)}
    async with running_cluster(tmp_path, overrides=selector, of_nodes=racks) as cluster:
        await create_replicated(cluster, [(1, 2)])
        await until_described(cluster, 1, isr=(1, 2))
        await send_numbers(cluster, 0, 5)
        async with consuming_from(cluster, client_rack="rack-2") as consumer:
            assigned = consumer._opened().subscription.assigned(ZERO)
            assert numbers(await fetch_exactly(consumer, 5)) == [0, 1, 2, 3, 4]
            assert assigned.preferred_replica == 2
            await send_numbers(cluster, 5, 5)
            assert numbers(await fetch_exactly(consumer, 5)) == [5, 6, 7, 8, 9]
            await cluster.nodes[2].crash()
            await send_numbers(cluster, 10, 5)
            assert numbers(await fetch_exactly(consumer, 5)) == [10, 11, 12, 13, 14]


UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@asynccontextmanager
async def truncated(directory: Path) -> AsyncIterator[tuple[RunningCluster, int]]:
    """A cluster whose topic has lost the records from offset 3 on in an unclean election, and its leader."""
    overrides = {"replica.lag.time.max.ms": "1000"}
    async with running_cluster(directory, {1: "controller", 2: "broker", 3: "broker"}, overrides=overrides) as cluster:
        await create_replicated(cluster, [(2, 3)], UNCLEAN)
        await until_described(cluster, 2, isr=(2, 3))
        await send_numbers(cluster, 0, 3)
        yield cluster, 2


async def lose_records(cluster: RunningCluster) -> None:
    """Broker 3 is down while broker 2 accepts records, and later leads alone."""
    await cluster.nodes[3].crash()
    await until_described(cluster, 2, isr=(2,))
    await send_numbers(cluster, 3, 4)


async def elect_uncleanly(cluster: RunningCluster) -> None:
    await cluster.nodes[2].crash()
    await cluster.start(3)
    await until_described(cluster, 3, leader=3)
    await send_numbers(cluster, 100, 6)


async def test_truncation_moves_the_position_to_where_the_log_diverges_kip_320(tmp_path: Path) -> None:
    async with truncated(tmp_path) as (cluster, _), consuming_from(cluster) as consumer:
        await lose_records(cluster)
        assert numbers(await fetch_exactly(consumer, 7)) == [0, 1, 2, 3, 4, 5, 6]
        await elect_uncleanly(cluster)
        assert numbers(await fetch_exactly(consumer, 6)) == [100, 101, 102, 103, 104, 105]


async def test_truncation_without_a_policy_is_an_error_that_names_the_offset_kip_320(tmp_path: Path) -> None:
    async with truncated(tmp_path) as (cluster, _), consuming_from(cluster, auto_offset_reset="none") as consumer:
        await lose_records(cluster)
        consumer.seek(ZERO, 0)
        await fetch_exactly(consumer, 7)
        await elect_uncleanly(cluster)
        with pytest.raises(LogTruncation) as raised, trio.fail_after(WITHIN_S):
            await consumer.fetch()
        divergent = raised.value.divergent_offset
        assert isinstance(divergent, OffsetAndMetadata)
        assert divergent.offset == 3
        consumer.seek(ZERO, divergent)
        assert numbers(await fetch_exactly(consumer, 6)) == [100, 101, 102, 103, 104, 105]
