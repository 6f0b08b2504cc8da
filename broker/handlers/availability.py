"""Which of a partition's replicas clients can reach, as Metadata and DescribeTopicPartitions tell of them."""

from typing import Final, NamedTuple

from broker.wire.errors import ErrorCode
from metadata.image import ClusterImage, PartitionImage

NO_LEADER: Final = -1


class Availability(NamedTuple):
    error_code: ErrorCode
    leader_id: int
    offline_replicas: list[int]


def availability(cluster: ClusterImage, partition: PartitionImage) -> Availability:
    """A fenced broker counts as gone, as it does for every client."""
    brokers = cluster.brokers
    offline = [replica for replica in partition.replicas if (broker := brokers.get(replica)) is None or broker.fenced]
    leader = brokers.get(partition.leader)
    if leader is None or leader.fenced:
        return Availability(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
    return Availability(ErrorCode.NONE, partition.leader, offline)
