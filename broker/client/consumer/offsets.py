"""Lookups of offsets at the leaders: by timestamp (ListOffsets) and by leader epoch (OffsetForLeaderEpoch)."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.positions import PositionSnapshot
from broker.client.errors import ConnectionLost, KafkaError, UnsupportedByBroker
from broker.client.types import TopicPartition
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.errors import ErrorCode

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_CONSUMER_REPLICA_ID: Final = -1

_V = TypeVar("_V")


class ListedOffset(NamedTuple):
    """`offset` is -1 where no record is as new as the timestamp; `timestamp_ms` is -1 for the ends of a log."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None


class EpochEnd(NamedTuple):
    """The end of the largest epoch up to the requested one; -1 if the log has none."""

    epoch: int
    end_offset: int


class OffsetLookups:
    """See the module's docstring."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self._cluster = cluster
        self._timeout_ms = config.default_api_timeout_ms
        self._isolation_level = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED

    async def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets of timestamps, of all partitions. Retries within `default.api.timeout.ms`.

        Raises TimedOut, KafkaError.
        """
        found: dict[TopicPartition, ListedOffset] = {}
        is_repeated = False

        async def attempt() -> None:
            nonlocal is_repeated
            missing = {key: timestamp for key, timestamp in timestamps.items() if key not in found}
            if is_repeated:
                # The cluster only refreshes the topics that it follows. These may not be assigned.
                await self._cluster.refresh({key.topic for key in missing})
            is_repeated = True
            by_leader = await self._by_leader(missing)
            failures: list[Exception] = []
            async with trio.open_nursery() as nursery:
                for node_id, part in by_leader.items():
                    nursery.start_soon(self._list_on, node_id, part, found, failures)
            if failures:
                raise failures[0]

        await self._cluster.retried(attempt, timeout_ms=self._timeout_ms)
        return {key: found[key] for key in timestamps}

    async def _by_leader(self, timestamps: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        if any(self._cluster.metadata.leader(key) is None for key in timestamps):
            await self._cluster.refresh({key.topic for key in timestamps})
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for key, timestamp in timestamps.items():
            leader = self._cluster.metadata.leader(key)
            if leader is None:
                known = self._cluster.metadata.partition(key) is not None
                code = ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(code, f"{key.topic}-{key.partition}")
            by_node.setdefault(leader[0], {})[key] = timestamp
        return by_node

    async def _list_on(
        self,
        node_id: int,
        timestamps: Mapping[TopicPartition, int],
        found: dict[TopicPartition, ListedOffset],
        failures: list[Exception],
    ) -> None:
        try:
            answers = await self.list_on(node_id, timestamps)
        except (ConnectionLost, KafkaError, UnsupportedByBroker) as failure:
            failures.append(failure)
            return
        for key, answer in answers.items():
            if isinstance(answer, KafkaError):
                failures.append(answer)
            else:
                found[key] = answer
        failures += [
            KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {node_id} did not return {key.topic}-{key.partition}")
            for key in timestamps
            if key not in answers
        ]

    async def list_on(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """One request to the leader of all these partitions. Raises ConnectionLost, UnsupportedByBroker."""
        leaders = {key: self._cluster.metadata.leader(key) for key in timestamps}
        topics = _by_topic(
            timestamps,
            lambda name: ListOffsetsTopic(name=name),
            lambda key, timestamp: ListOffsetsPartition(
                partition_index=key.partition,
                current_leader_epoch=-1 if (leader := leaders[key]) is None else leader[1],
                timestamp=timestamp,
            ),
        )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            isolation_level=self._isolation_level,
            topics=topics,
            timeout_ms=int(min(self._timeout_ms, 2**31 - 1)),
        )
        broker = await self._cluster.broker(node_id)
        response = await broker.call(request)
        answers: dict[TopicPartition, ListedOffset | KafkaError] = {}
        for topic in response.topics:
            for part in topic.partitions:
                key = TopicPartition(topic.name, part.partition_index)
                answers[key] = _failure(key, part.error_code) or ListedOffset(
                    part.offset, part.timestamp, None if part.leader_epoch < 0 else part.leader_epoch
                )
        return answers

    async def epoch_ends_on(
        self, node_id: int, snapshots: Mapping[TopicPartition, PositionSnapshot]
    ) -> dict[TopicPartition, EpochEnd | KafkaError]:
        """Asks a leader where the epochs of positions ended in its log (KIP-320). Raises as `list_on` does."""
        topics = _by_topic(
            snapshots,
            lambda name: OffsetForLeaderTopic(topic=name),
            lambda key, snapshot: OffsetForLeaderPartition(
                partition=key.partition,
                current_leader_epoch=snapshot.leader.epoch,
                leader_epoch=-1 if snapshot.position.epoch is None else snapshot.position.epoch,
            ),
        )
        broker = await self._cluster.broker(node_id)
        response = await broker.call(OffsetForLeaderEpochRequest(topics=topics))
        answers: dict[TopicPartition, EpochEnd | KafkaError] = {}
        for topic in response.topics:
            for part in topic.partitions:
                key = TopicPartition(topic.topic, part.partition)
                answers[key] = _failure(key, part.error_code) or EpochEnd(part.leader_epoch, part.end_offset)
        return answers


def _failure(key: TopicPartition, code: int) -> KafkaError | None:
    return None if code == ErrorCode.NONE else KafkaError(ErrorCode.of(code), f"{key.topic}-{key.partition}")


def _by_topic(
    partitions: Mapping[TopicPartition, _V],
    make_topic: Callable[[str], Any],
    make_partition: Callable[[TopicPartition, _V], Any],
) -> list[Any]:
    """The topics of a request, each with its partitions."""
    topics: dict[str, Any] = {}
    for key, value in partitions.items():
        if key.topic not in topics:
            topics[key.topic] = make_topic(key.topic)
        topics[key.topic].partitions.append(make_partition(key, value))
    return list(topics.values())
