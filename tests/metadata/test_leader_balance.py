"""Automatic preferred leader elections: the partitions, the time, the batch size and the cost."""

from collections.abc import Mapping, Sequence

import attrs
import trio
from trio.testing import MockClock

from metadata.controller import ControllerConfig, IsrChange, IsrMember, NewTopic, TopicIsrChanges, TopicToDelete
from metadata.controller.leader_balance import BETWEEN_BATCHES_MS, ELECTIONS_PER_BATCH_MAX, LeaderBalance
from metadata.image import MetadataDelta, PartitionImage
from metadata.records import MetadataRecord
from tests.support.metadata import CLUSTER_ID, Cluster, MetadataNode, metadata_node, schema
from tests.support.volatile_disk import VolatileDisk

INTERVAL_MS = 300_000.0


class Balanced(Cluster):
    """A cluster with a LeaderBalance, which follows every decision."""

    def __init__(self, *assignments: tuple[int, ...], interval_ms: float | None = INTERVAL_MS) -> None:
        self.balance = LeaderBalance(schema(), interval_ms)
        super().__init__(brokers=3)
        self.create("t", *assignments)

    def take(self, records: Sequence[MetadataRecord]) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(records)
        super().take(records)
        self.balance.update(delta, self.now_ms)

    def create(self, name: str, *assignments: tuple[int, ...]) -> None:
        topic = NewTopic(name, assignments=list(enumerate(assignments)))
        (created,) = self.decide(self.topics.create(self.image, [topic]))
        assert created.error is None

    def leaders(self, name: str = "t") -> list[int]:
        return [partition.leader for partition in self.image.topics.by_name[name].partitions.values()]

    def check(self) -> int:
        """Run the check that is due, and return the number of its elections."""
        due_ms = self.balance.next_check_ms
        assert due_ms is not None, "a check is due"
        self.now_ms = due_ms
        records = self.balance.batch(self.image, self.now_ms)
        self.take(records)
        return len(records)


def test_no_check_is_due_while_all_preferred_leaders_lead() -> None:
    cluster = Balanced((1, 2, 3), (2, 3, 1))
    assert cluster.balance.next_check_ms is None


def test_imbalanced_partitions_get_their_preferred_leaders_after_the_interval() -> None:
    cluster = Balanced((1, 2, 3), (2, 3, 1), (1, 3, 2))
    cluster.fence(1)
    assert cluster.leaders() == [2, 2, 3]
    cluster.join(1)
    assert cluster.balance.next_check_ms is None, "the preferred leaders are not in sync"
    cluster.now_ms = 1_000
    cluster.catch_up(1)
    assert cluster.balance.next_check_ms == 1_000 + INTERVAL_MS

    assert cluster.check() == 2

    assert cluster.leaders() == [1, 2, 1]
    assert cluster.check() == 0
    assert cluster.balance.next_check_ms is None


def test_no_leader_is_elected_when_rebalancing_is_disabled() -> None:
    cluster = Balanced((1, 2), interval_ms=None)
    cluster.fence(1)
    cluster.join(1)
    cluster.catch_up(1)
    assert cluster.balance.next_check_ms is None


def test_partition_that_was_balanced_or_deleted_is_not_elected() -> None:
    cluster = Balanced((1, 2), (1, 3))
    cluster.create("gone", (1, 2), (1, 3))
    cluster.fence(1)
    cluster.join(1)
    cluster.catch_up(1)
    cluster.fence(2)
    assert cluster.leaders() == [1, 3]
    cluster.decide(cluster.topics.delete(cluster.image, [TopicToDelete("gone")]))
    assert cluster.check() == 1
    assert cluster.leaders() == [1, 1]


def test_check_elects_one_batch_and_the_next_follows_soon() -> None:
    """Kafka's batch size is a thousand elections, too."""
    cluster = Balanced(*[(1, 2)] * (ELECTIONS_PER_BATCH_MAX + 1))
    cluster.fence(1)
    cluster.join(1)
    cluster.catch_up(1)

    assert cluster.check() == ELECTIONS_PER_BATCH_MAX
    assert cluster.balance.next_check_ms == cluster.now_ms + BETWEEN_BATCHES_MS
    assert cluster.check() == 1
    assert set(cluster.leaders()) == {1}


def test_new_controller_finds_the_imbalanced_partitions() -> None:
    cluster = Balanced((1, 2), (2, 1))
    cluster.fence(1)
    cluster.join(1)
    cluster.catch_up(1)
    successor = LeaderBalance(schema(), INTERVAL_MS)
    successor.reset(cluster.image, 77.0)
    assert successor.next_check_ms == 77.0 + INTERVAL_MS
    assert [record.partition_id for record in successor.batch(cluster.image, 0.0)] == [0]


async def test_active_controller_elects_preferred_leaders_by_itself(autojump_clock: MockClock) -> None:
    async with metadata_node(VolatileDisk(), watches_brokers=True) as node:
        epochs = {broker_id: await node.join(broker_id) for broker_id in (1, 2)}
        await node.controller.create_topics([NewTopic("t", assignments=[(0, (1, 2))])])
        node.controller.broker_connection_lost(1, epochs[1])
        await beat_for(node, {2: epochs[2]}, 1)
        assert partition_of(node).leader == 2
        await node.heartbeat(1, epochs[1])
        partition = partition_of(node)
        change = IsrChange(
            partition_id=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=[IsrMember(2), IsrMember(1)],
        )
        topic_id = node.loader.image.topics.by_name["t"].topic_id
        await node.controller.alter_partition(2, epochs[2], [TopicIsrChanges(topic_id, [change])])

        await beat_for(node, epochs, 299)
        assert partition_of(node).leader == 2
        await beat_for(node, epochs, 2)
        assert partition_of(node).leader == 1


def partition_of(node: MetadataNode) -> PartitionImage:
    return node.loader.image.topics.by_name["t"].partitions[0]


async def beat_for(node: MetadataNode, epochs: Mapping[int, int], seconds: int) -> None:
    for _ in range(seconds):
        await trio.sleep(1)
        for broker_id, epoch in epochs.items():
            await node.heartbeat(broker_id, epoch)


def test_rebalancing_follows_its_configs() -> None:
    config = ControllerConfig(cluster_id=CLUSTER_ID)
    assert config.leader_balance_interval_ms == INTERVAL_MS
    assert attrs.evolve(config, leader_imbalance_check_interval_seconds=5).leader_balance_interval_ms == 5_000
    assert attrs.evolve(config, auto_leader_rebalance_enable=False).leader_balance_interval_ms is None
