"""Offsets of partitions: where logs begin and end, and the first offset at or after a time."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Literal

from broker.client.admin.routing import Deadline, Routing, by_topic
from broker.client.brokers import Broker
from broker.client.results import Outcomes, Results, outcome_of
from broker.client.types import OffsetAndTimestamp, TopicPartition
from broker.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CONSUMER: Final = -1
_ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}


class OffsetSpec(IntEnum):
    """Which offset of a partition is wanted, where it is not the one at a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The first version of ListOffsets that knows a spec. Version 1 knows the others.
_KNOWN_SINCE: Final[Mapping[int, int]] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
# Versions that carry the isolation level.
_ISOLATION_SINCE: Final = 2


class OffsetCalls(Routing):
    """Calls on offsets of partitions."""

    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the offset that is wanted of each partition: an OffsetSpec, or a time in milliseconds since 1970.

        The value is None if no record is at or after the time. The timestamp of EARLIEST and LATEST is -1.
        """
        wanted = {partition: int(spec) for partition, spec in partitions.items()}
        _check(wanted)
        level = _ISOLATION_LEVELS[isolation_level]
        lowest = max(_ISOLATION_SINCE if level else 0, *(_KNOWN_SINCE.get(each, 0) for each in wanted.values()), 0)

        async def ask(
            broker: Broker, pending: Sequence[TopicPartition], deadline: Deadline
        ) -> Outcomes[TopicPartition, OffsetAndTimestamp | None]:
            topics = [_topic(name, of_topic, wanted) for name, of_topic in by_topic(pending).items()]
            request = ListOffsetsRequest(
                replica_id=_CONSUMER, isolation_level=level, topics=topics, timeout_ms=deadline.request_timeout_ms
            )
            response: ListOffsetsResponse = await broker.call(request, lowest=lowest)
            return {
                TopicPartition(topic.name, each.partition_index): outcome_of(each.error_code, None, _offset(each))
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._by_leader(wanted, ask, timeout_ms)


def _check(wanted: Mapping[TopicPartition, int]) -> None:
    """Raises ValueError for a negative number that is no OffsetSpec."""
    for partition, timestamp in wanted.items():
        if timestamp < min(OffsetSpec):
            raise ValueError(f"{partition}: {timestamp} is neither an OffsetSpec nor a time since 1970")


def _topic(name: str, partitions: Iterable[TopicPartition], wanted: Mapping[TopicPartition, int]) -> ListOffsetsTopic:
    asked = [ListOffsetsPartition(partition_index=each.partition, timestamp=wanted[each]) for each in partitions]
    return ListOffsetsTopic(name=name, partitions=asked)


def _offset(found: ListOffsetsPartitionResponse) -> OffsetAndTimestamp | None:
    if found.offset < 0:
        return None
    return OffsetAndTimestamp(found.offset, found.timestamp, None if found.leader_epoch < 0 else found.leader_epoch)
