"""Consumers read from the replica in their rack (KIP-392), over sockets, and with a real client."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Message, TopicPartition

from broker.replication.replica_selector import ReplicaView, select_by_rack
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.errors import ErrorCode
from tests.support.confluent_driver import new_consumer
from tests.support.replicated_topics import create_replicated, send
from tests.support.requests import batch, fetch_request, produce, records_of
from tests.support.running_cluster import WITHIN_S, RunningCluster, running_cluster
from tests.support.wire_client import WireClient, connected, only

RACKS = {1: "north", 2: "south", 3: "west"}
SELECTING = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # So long that a test fails if it has to wait for the next fetch of an idle follower.
    "replica.fetch.wait.max.ms": "20000",
}
OF_NODES = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
FETCH_VERSION = 12
# Less than an idle follower waits, and enough for a busy machine.
PROMPT_S = 10.0


# The rule


def view(broker_id: int, rack: str | None = None, end: int = 9, caught_up_ms: float = 0) -> ReplicaView:
    return ReplicaView(broker_id, rack, end, caught_up_ms)


LEADER = view(1, "north")


@pytest.mark.parametrize(
    ("rack", "followers", "chosen"),
    [
        ("south", [view(2, "south"), view(3, "west")], 2),
        ("north", [view(2, "north", end=99)], 1),  # the leader is equally near
        ("east", [view(2, "south"), view(3, None)], 1),
        ("", [view(2, ""), view(3, None)], 1),
        ("south", [], 1),
        ("south", [view(2, "south", end=7), view(3, "south", end=8)], 3),
        ("south", [view(2, "south", caught_up_ms=5), view(3, "south", caught_up_ms=4)], 2),
        ("south", [view(3, "south"), view(2, "south")], 3),
    ],
)
def test_selector_chooses_the_most_caught_up_replica_in_the_rack(
    rack: str, followers: list[ReplicaView], chosen: int
) -> None:
    assert select_by_rack(rack, LEADER, followers).broker_id == chosen


# On the wire


async def fetched(
    client: WireClient, offset: int = 0, *, rack: str = "", version: int = FETCH_VERSION, **fields: Any
) -> Any:
    response = await client.call(fetch_request(offset, rack_id=rack, **fields), version)
    assert response.error_code == 0
    return only(only(response.responses).partitions)


async def until_read(client: WireClient, values: list[bytes]) -> None:
    """Wait until a follower serves exactly these records.

    It learns of new records with its next fetch. Until the leader of the epoch has responded, it serves nothing.
    """
    with trio.fail_after(WITHIN_S):
        while True:
            partition = await fetched(client)
            if partition.error_code == 0 and [record.value for record in records_of(partition)] == values:
                return
            await trio.sleep(0.005)


async def test_leader_names_the_preferred_replica_which_serves_the_consumer(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides=SELECTING, of_nodes=OF_NODES) as cluster:
        await create_replicated(cluster)
        assert await send(cluster, 1, b"a", b"b") == 0
        async with connected(cluster.port(1)) as leader, connected(cluster.port(2)) as follower:
            sent = await fetched(leader, rack="south", max_wait_ms=60_000)
            assert (sent.error_code, sent.preferred_read_replica, bytes(sent.records)) == (0, 2, b"")
            assert sent.high_watermark == 2
            for rack in ("north", "east", ""):
                sent = await fetched(leader, rack=rack)
                assert (sent.preferred_read_replica, len(records_of(sent))) == (-1, 2)
            for _ in range(3):  # later requests may take the shortcut
                sent = await fetched(leader, rack="south")
                assert sent.preferred_read_replica == 2

            await until_read(follower, [b"a", b"b"])
            sent = await fetched(follower, rack="north")
            assert (sent.preferred_read_replica, len(records_of(sent))) == (-1, 2)  # only the leader chooses


async def test_follower_that_is_down_is_not_named(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides=SELECTING, of_nodes=OF_NODES) as cluster:
        await create_replicated(cluster)
        assert await send(cluster, 1, b"a") == 0
        await cluster.nodes[2].crash()
        async with connected(cluster.port(1)) as leader:
            with trio.fail_after(WITHIN_S):
                while (await fetched(leader, rack="south")).preferred_read_replica != -1:
                    await trio.sleep(0.01)
            assert (await fetched(leader, rack="west")).preferred_read_replica == 3


async def test_followers_get_a_new_high_watermark_at_once_kip_392(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides=SELECTING, of_nodes=OF_NODES) as cluster:
        await create_replicated(cluster)
        async with connected(cluster.port(1)) as leader, connected(cluster.port(3)) as follower:
            for count in range(1, 4):
                assert (await produce(leader, batch(b"value"))).error_code == 0
                with trio.fail_after(PROMPT_S):
                    await until_read(follower, [b"value"] * count)


async def test_consumer_fetch_waiting_at_a_follower_completes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides=SELECTING, of_nodes=OF_NODES) as cluster:
        await create_replicated(cluster)
        async with connected(cluster.port(2)) as follower:
            assert await send(cluster, 1, b"a") == 0
            await until_read(follower, [b"a"])
            await follower.send(fetch_request(1, max_wait_ms=60_000), FETCH_VERSION)
            assert await send(cluster, 1, b"b") == 0
            with trio.fail_after(PROMPT_S):
                response = await follower.receive()
            assert [record.value for record in records_of(only(only(response.responses).partitions))] == [b"b"]


async def test_followers_serve_committed_records_and_refuse_the_rest(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides=SELECTING, of_nodes=OF_NODES) as cluster:
        await create_replicated(cluster)
        assert await send(cluster, 1, b"a") == 0
        async with connected(cluster.port(2)) as client:
            await until_read(client, [b"a"])
            at_end = await fetched(client, 1)
            assert (at_end.error_code, bytes(at_end.records), at_end.high_watermark) == (0, b"", 1)
            beyond = await fetched(client, 2)
            assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            # An old version of Fetch cannot name a preferred replica, so such a consumer cannot have chosen a follower.
            assert (await fetched(client, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            for epoch, code in ((0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
                partition = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1_000)
                request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="topic", partitions=[partition])])
                response = await client.call(request, FETCH_VERSION)
                assert only(only(response.responses).partitions).error_code == code


async def test_debug_read_returns_uncommitted_records(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1, 2, 3]])
        await cluster.nodes[3].crash()
        assert await send(cluster, 1, b"a", acks=1) == 0
        async with connected(cluster.port(2)) as client:
            with trio.fail_after(WITHIN_S):
                while not records_of(await fetched(client, replica_id=-2)):
                    await trio.sleep(0.005)


# A real client


class Watched:
    """A consumer of librdkafka that reports the broker from which it reads; its calls block."""

    def __init__(self, cluster: RunningCluster, rack: str) -> None:
        self.source = -1
        self.values: list[bytes] = []
        bootstrap = ",".join(f"127.0.0.1:{cluster.port(node_id)}" for node_id in cluster.nodes)
        settings: dict[str, object] = {
            "client.rack": rack,
            "statistics.interval.ms": 20,
            "stats_cb": self._on_statistics,
        }
        self._consumer = new_consumer(bootstrap, **settings)
        self._consumer.assign([TopicPartition("topic", 0, 0)])

    def _on_statistics(self, statistics: str) -> None:
        topics = json.loads(statistics)["topics"]
        if "topic" in topics and "0" in topics["topic"]["partitions"]:
            self.source = int(topics["topic"]["partitions"]["0"]["broker"])

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(WITHIN_S):
            while not holds():
                message: Message | None = await trio.to_thread.run_sync(self._consumer.poll, 0.05)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.values.append(message.value() or b"")

    async def close(self) -> None:
        await trio.to_thread.run_sync(self._consumer.close)


@pytest.mark.clients
async def test_librdkafka_reads_in_its_rack_and_from_the_leader_if_that_replica_fails(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides=SELECTING, of_nodes=OF_NODES) as cluster:
        await create_replicated(cluster)
        consumer = Watched(cluster, "south")
        try:
            assert await send(cluster, 1, b"a") == 0
            await consumer.until(lambda: consumer.values == [b"a"])
            assert await send(cluster, 1, b"b") == 0
            await consumer.until(lambda: consumer.source == 2 and consumer.values == [b"a", b"b"])
            await cluster.nodes[2].crash()
            assert await send(cluster, 1, b"c") == 0
            await consumer.until(lambda: consumer.values == [b"a", b"b", b"c"] and consumer.source == 1)
        finally:
            await consumer.close()
