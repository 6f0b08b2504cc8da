"""The requests about the offsets of partitions."""

from typing import Any, Final

import attrs

from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.differential.sequences import Place, Step

_ISOLATION_FROM: Final = 2
_LEADER_EPOCHS_FROM: Final = 4
_REPLICAS_FROM: Final = 3
_TIMEOUT_FROM: Final = 10

# Topic, partition, and a number: a timestamp, an offset or an epoch.
Asked = tuple[str, int, int]


def _by_topic(asked: tuple[Asked, ...]) -> dict[str, list[tuple[int, int]]]:
    topics: dict[str, list[tuple[int, int]]] = {}
    for topic, index, value in asked:
        topics.setdefault(topic, []).append((index, value))
    return topics


@attrs.frozen(kw_only=True)
class ListOffsets(Step):
    """`asked` has timestamps."""

    version: int
    asked: tuple[Asked, ...]
    isolation_level: int = 0
    leader_epoch: int = -1
    replica_id: int = -1

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            ListOffsetsTopic(
                name=place.named(topic),
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index,
                        timestamp=timestamp,
                        current_leader_epoch=self.leader_epoch if self.version >= _LEADER_EPOCHS_FROM else -1,
                    )
                    for index, timestamp in partitions
                ],
            )
            for topic, partitions in _by_topic(self.asked).items()
        ]
        message = ListOffsetsRequest(replica_id=self.replica_id, topics=topics)
        if self.version >= _ISOLATION_FROM:
            message.isolation_level = self.isolation_level
        if self.version >= _TIMEOUT_FROM:
            message.timeout_ms = 10_000
        return message, self.version


@attrs.frozen(kw_only=True)
class DeleteRecords(Step):
    """`asked` has offsets."""

    version: int
    asked: tuple[Asked, ...]
    timeout_ms: int = 10_000

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            DeleteRecordsTopic(
                name=place.named(topic),
                partitions=[DeleteRecordsPartition(partition_index=at, offset=offset) for at, offset in partitions],
            )
            for topic, partitions in _by_topic(self.asked).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=self.timeout_ms), self.version


@attrs.frozen(kw_only=True)
class EpochEnds(Step):
    """OffsetForLeaderEpoch. `asked` has epochs."""

    version: int
    asked: tuple[Asked, ...]
    leader_epoch: int = -1
    replica_id: int = -2

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            OffsetForLeaderTopic(
                topic=place.named(topic),
                partitions=[
                    OffsetForLeaderPartition(partition=at, leader_epoch=epoch, current_leader_epoch=self.leader_epoch)
                    for at, epoch in partitions
                ],
            )
            for topic, partitions in _by_topic(self.asked).items()
        ]
        message = OffsetForLeaderEpochRequest(topics=topics)
        if self.version >= _REPLICAS_FROM:
            message.replica_id = self.replica_id
        return message, self.version
