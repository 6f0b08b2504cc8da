"""The lags of groups: their committed offsets, compared with the ends of partitions."""

from collections.abc import Sequence
from typing import Any, Final

import trio
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_ANSWER_SECONDS: Final = 5.0


class Lags:
    """Reads the lags of `groups` from the cluster."""

    def __init__(self, bootstrap: str, groups: Sequence[str], topic: str, partitions: int) -> None:
        self._groups = groups
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    async def are_zero(self) -> bool:
        """True if every group has committed all records. False if that is unknown."""
        try:
            return await trio.to_thread.run_sync(self._are_zero)
        except KafkaException:
            return False

    def _are_zero(self) -> bool:
        """Raises KafkaException."""
        asked = self._admin.list_offsets(
            {each: OffsetSpec.latest() for each in self._partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        told: dict[int, Any] = {partition.partition: future.result() for partition, future in asked.items()}
        ends = {partition: each.offset for partition, each in told.items()}
        return all(self._committed(group) == ends for group in self._groups)

    def _committed(self, group: str) -> dict[int, int]:
        wanted = ConsumerGroupTopicPartitions(group, self._partitions)
        (future,) = self._admin.list_consumer_group_offsets([wanted], request_timeout=_ANSWER_SECONDS).values()
        return {each.partition: max(each.offset, 0) for each in future.result().topic_partitions}
