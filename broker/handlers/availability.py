"""The brokers and replicas that clients can reach, for Metadata and DescribeTopicPartitions."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Final, NamedTuple

from broker.wire.errors import ErrorCode
from metadata.ids import UNASSIGNED_DIRECTORY, is_online
from metadata.image import ClusterImage, PartitionImage
from metadata.records import BrokerEndpoint

NO_LEADER: Final = -1


class Availability(NamedTuple):
    error_code: ErrorCode
    leader_id: int
    offline_replicas: list[int]


class ClusterView:
    """The cluster as clients of one listener see it.

    `endpoints` maps broker ids to endpoints of this listener, without fenced brokers and brokers without the listener.
    """

    def __init__(self, cluster: ClusterImage, listener: str) -> None:
        self._cluster, self._listener = cluster, listener
        self.endpoints: Mapping[int, BrokerEndpoint] = {
            broker.broker_id: broker.end_points[listener]
            for broker in cluster.brokers.values()
            if not broker.fenced and listener in broker.end_points
        }

    def with_lost(self, lost: Iterable[int]) -> Iterator[tuple[int, BrokerEndpoint]]:
        """The endpoints of the brokers that can be reached, and those of the fenced brokers of `lost`."""
        yield from self.endpoints.items()
        for broker_id in lost:
            broker = self._cluster.brokers.get(broker_id)
            if broker is not None and broker.fenced and self._listener in broker.end_points:
                yield broker_id, broker.end_points[self._listener]

    def reachable(self, broker_ids: Iterable[int]) -> list[int]:
        return [broker_id for broker_id in broker_ids if broker_id in self.endpoints]

    def availability(self, partition: PartitionImage) -> Availability:
        """The partition's leader and offline replicas; LISTENER_NOT_FOUND if an unfenced leader lacks the listener."""
        directories = partition.directories or repeat(UNASSIGNED_DIRECTORY)
        offline = [
            replica
            for replica, directory in zip(partition.replicas, directories, strict=False)
            if replica not in self.endpoints or not is_online(directory, self._cluster.brokers[replica].log_dirs)
        ]
        if partition.leader in self.endpoints:
            return Availability(ErrorCode.NONE, partition.leader, offline)
        leader = self._cluster.brokers.get(partition.leader)
        is_there = leader is not None and not leader.fenced
        error = ErrorCode.LISTENER_NOT_FOUND if is_there else ErrorCode.LEADER_NOT_AVAILABLE
        return Availability(error, NO_LEADER, offline)
