"""A client's view of the cluster: brokers, topics, partition leaders and their epochs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from broker.client.types import Node, TopicPartition
from broker.wire.api.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

NO_LEADER: Final = -1
UNKNOWN_EPOCH: Final = -1


class PartitionMetadata(NamedTuple):
    """The leader and the replicas of a partition, as node ids; the result of `partitions_for`.

    `leader_id` is -1 if there is no leader. `leader_epoch` is -1 from a broker that does not report it.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@attrs.frozen
class TopicMetadata:
    """`id` is ZERO_UUID from a broker that does not report it. `partitions` is indexed by partition number."""

    name: str
    id: bytes
    is_internal: bool
    error: ErrorCode
    partitions: Sequence[PartitionMetadata]


class MetadataCache:
    """Metadata responses, merged: of two reports of a partition the one with the newer leader epoch counts (KIP-320).

    `version` grows with every change.
    """

    def __init__(self) -> None:
        self.version = 0
        self.cluster_id: str | None = None
        self.controller_id = -1
        self._brokers: dict[int, Node] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[bytes, str] = {}

    @property
    def brokers(self) -> Mapping[int, Node]:
        return self._brokers

    @property
    def topics(self) -> Mapping[str, TopicMetadata]:
        """Topics that exist, and topics that were asked for and could not be described, with their error."""
        return self._topics

    def topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        topic = self._topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def leader(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The leader's node id and epoch. None where the partition is unknown or has no leader."""
        known = self.partition(partition)
        if known is None or known.leader_id == NO_LEADER:
            return None
        return known.leader_id, known.leader_epoch

    def update(self, response: MetadataResponse, *, is_complete: bool) -> None:
        """Merges a response. A complete one describes all topics: the ones it leaves out are gone."""
        self.version += 1
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self._brokers = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        }
        described = {topic.name: self._merged(topic) for topic in response.topics if topic.name}
        self._topics = described if is_complete else self._topics | described
        self._names = {topic.id: name for name, topic in self._topics.items() if topic.id != ZERO_UUID}

    def update_brokers(self, brokers: Iterable[Node], cluster_id: str | None, controller_id: int) -> None:
        """Replaces the brokers, where only they were asked for (DescribeCluster)."""
        self.version += 1
        self._brokers = {broker.id: broker for broker in brokers}
        self.cluster_id = cluster_id
        self.controller_id = controller_id

    def add_broker(self, node: Node) -> None:
        """Adds the address of a broker that another response than Metadata named (FindCoordinator, KIP-951)."""
        if self._brokers.get(node.id) != node:
            self.version += 1
            self._brokers = {**self._brokers, node.id: node}

    def update_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Takes a leader from a Produce or Fetch response (KIP-951); True if it is newer than what was known."""
        known = self.partition(partition)
        if known is None or leader_epoch <= known.leader_epoch or leader_id not in self._brokers:
            return False
        topic = self._topics[partition.topic]
        partitions = list(topic.partitions)
        partitions[partition.partition] = known._replace(leader_id=leader_id, leader_epoch=leader_epoch)
        self._topics[partition.topic] = attrs.evolve(topic, partitions=partitions)
        self.version += 1
        return True

    def forget(self, topics: Iterable[str]) -> None:
        """Drops topics that the client no longer follows."""
        for name in topics:
            topic = self._topics.pop(name, None)
            if topic is not None:
                self._names.pop(topic.id, None)

    def _merged(self, topic: MetadataResponseTopic) -> TopicMetadata:
        error = ErrorCode.of(topic.error_code)
        name = topic.name or ""
        known = self._topics.get(name)
        same = known if known is not None and known.id == topic.topic_id else None
        reported = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        # A hole in the numbers cannot be indexed; a correct broker leaves none.
        contiguous = [partition for index, partition in enumerate(reported) if partition.partition_index == index]
        partitions = [_newer(same, partition) for partition in contiguous]
        return TopicMetadata(name, topic.topic_id, topic.is_internal, error, partitions)


def _newer(known: TopicMetadata | None, reported: MetadataResponsePartition) -> PartitionMetadata:
    """Returns the report with the newer leader epoch: a broker that lags behind may report an older leader."""
    if known is not None and reported.partition_index < len(known.partitions):
        before = known.partitions[reported.partition_index]
        if UNKNOWN_EPOCH < reported.leader_epoch < before.leader_epoch:
            return before
    return PartitionMetadata(
        reported.partition_index,
        reported.leader_id,
        reported.leader_epoch,
        tuple(reported.replica_nodes),
        tuple(reported.isr_nodes),
        tuple(reported.offline_replicas),
    )
