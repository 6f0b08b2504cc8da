"""Share consumers while the leader of their partitions is killed, and comes back (KIP-932)."""

from collections import Counter
from pathlib import Path

import trio

from broker.client import AcknowledgeType, Results, ShareConsumer, TopicPartition
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.support.replicated_topics import create_replicated, send
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.share_member import set_group_config
from tests.support.wire_client import connected, only

GROUP = "group"
RECORDS = 400
WITHIN_S = 60.0
LOCK_MS = 1_000
OVERRIDES = {
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": "10",
}


class Members:
    """The members of the group. `accepted` are the records whose acceptance is confirmed.

    `uncertain` are those that a commit with an error accepted: a leader that was killed may have stored that.
    """

    def __init__(self, cluster: RunningCluster) -> None:
        self._servers = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes.values())
        self.accepted: set[tuple[int, int]] = set()
        self.uncertain: set[tuple[int, int]] = set()
        self.deliveries: Counter[tuple[int, int]] = Counter()
        self.is_half_done, self.is_done = trio.Event(), trio.Event()

    async def consume(self) -> None:
        """Release each seventh delivery, and accept the others, until `is_done`."""
        consumer: ShareConsumer[bytes, bytes] = ShareConsumer(
            self._servers,
            topics=["topic"],
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            max_poll_records=10,
            share_acquire_mode="record_limit",
        )
        async with consumer:
            while not self.is_done.is_set():
                taken: list[tuple[int, int]] = []
                for record in await consumer.fetch(0.2):
                    place = record.partition, record.offset
                    assert place not in self.accepted, f"{place} was accepted before it was delivered"
                    self.deliveries[place] += 1
                    if (record.offset + self.deliveries[place]) % 7:
                        consumer.acknowledge(record)
                        taken.append(place)
                    else:
                        consumer.acknowledge(record, AcknowledgeType.RELEASE)
                self._take_results(taken, await consumer.commit())

    def _take_results(self, taken: list[tuple[int, int]], results: Results[TopicPartition, None]) -> None:
        stored = {partition.partition for partition in results.succeeded}
        for place in taken:
            assert place not in self.accepted, f"two members have accepted {place}"
            (self.accepted if place[0] in stored else self.uncertain).add(place)
        if len(self.accepted) > RECORDS // 2:
            self.is_half_done.set()


async def test_accepted_records_are_not_delivered_again_though_their_leader_is_killed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 3, overrides=OVERRIDES) as cluster:
        await create_replicated(cluster, ((1, 2, 3), (2, 3, 1)))
        async with connected(cluster.port(3)) as client:
            await set_group_config(client, "share.auto.offset.reset", "earliest")
            members = Members(cluster)
            with trio.fail_after(WITHIN_S):
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(members.consume)
                    for index in [0, 1] * (RECORDS // 20):
                        assert await send(cluster, index + 1, *[b"value"] * 10, index=index) == 0
                    await members.is_half_done.wait()
                    await cluster.nodes[1].crash()
                    await cluster.start(1)
                    while len(members.accepted | members.uncertain) < RECORDS or await lag(cluster):
                        await trio.sleep(0.1)
                    members.is_done.set()
        assert len(members.accepted) > RECORDS // 2


async def lag(cluster: RunningCluster) -> int:
    """The number of records that the group has not finished, as its coordinator describes it."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    for node_id in cluster.nodes:
        async with connected(cluster.port(node_id)) as client:
            response = await client.call(DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
        partitions = [each for topic in only(response.groups).topics for each in topic.partitions]
        if len(partitions) == 2:
            return sum(each.lag for each in partitions)
    return RECORDS
