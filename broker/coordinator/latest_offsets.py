"""The ends of partitions, which their leaders know: for the lag of share groups (KIP-1226)."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

import trio

from broker.client import ConnectionLost
from broker.coordinator.broker_connections import BrokerConnections
from broker.replication.replica_manager import ReplicaManager
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage

TopicPartition: TypeAlias = tuple[str, int]

_VERSION: Final = 7
_LATEST: Final = -1
_CONSUMER_REPLICA_ID: Final = -1
# The number of partitions after which other tasks run, and of those in one request to a leader: some 0.5 ms.
_AT_ONCE: Final = 256


class LatestOffsets:
    """Looks up high watermarks: those of partitions that this broker leads at once, others at their leaders."""

    def __init__(
        self,
        local_id: int,
        partitions: ReplicaManager,
        connections: BrokerConnections,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._local_id = local_id
        self._partitions = partitions
        self._connections = connections
        self._image = image

    async def of(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The high watermark of each partition, or the error of its leader."""
        found: dict[TopicPartition, int | KafkaError] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        topics = self._image().topics.by_name
        for number, (topic, index) in enumerate(wanted, 1):
            if not number % _AT_ONCE:
                await trio.lowlevel.checkpoint()
            image = topics.get(topic)
            known = None if image is None else image.partitions.get(index)
            if known is None:
                found[topic, index] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif known.leader == self._local_id:
                found[topic, index] = self._local(topic, index)
            elif known.leader < 0:
                found[topic, index] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                found[topic, index] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)  # unless it answers
                by_leader.setdefault(known.leader, []).append((topic, index))
        async with trio.open_nursery() as nursery:
            for leader, partitions in by_leader.items():
                nursery.start_soon(partial(self._ask, leader, partitions, found))
        return found

    def _local(self, topic: str, index: int) -> int | KafkaError:
        try:
            partition = self._partitions.get(topic, index)
            partition.leader_log()
        except KafkaError as error:
            return error.with_traceback(None)
        if not partition.role.knows_committed:
            return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return partition.high_watermark

    async def _ask(
        self, leader: int, partitions: list[TopicPartition], found: dict[TopicPartition, int | KafkaError]
    ) -> None:
        """Asks a broker, one portion after the other. A partition without an answer keeps its error."""
        for first in range(0, len(partitions), _AT_ONCE):
            try:
                request = _request(partitions[first : first + _AT_ONCE])
                response = await self._connections.call(leader, request, _VERSION)
            except ConnectionLost:
                return
            for topic in response.topics:
                for each in topic.partitions:
                    if (topic.name, each.partition_index) in found:
                        error = ErrorCode.of(each.error_code)
                        found[topic.name, each.partition_index] = KafkaError(error) if error else each.offset


def _request(partitions: Iterable[TopicPartition]) -> ListOffsetsRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes],
        )
        for topic, indexes in by_topic.items()
    ]
    return ListOffsetsRequest(replica_id=_CONSUMER_REPLICA_ID, topics=topics)
