"""The ends of partitions that other brokers have, for the lag of groups: asked for at the beginning of a scrape.

A broker knows the high watermarks of the partitions of which it has a replica. A follower's may be some milliseconds
old. The coordinator of a group may have no replica of a partition that the group consumes. Then the leaders are asked,
at a scrape only, with one request to each broker.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import trio

from broker.client import ConnectionLost
from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.metrics.collectors.coordinators import committed_offsets
from broker.replication.replica_manager import ReplicaManager
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.errors import ErrorCode
from metadata.image import MetadataImage

TopicPartition: TypeAlias = tuple[str, int]

_VERSION: Final = 7
_LATEST: Final = -1
_CONSUMER_REPLICA_ID: Final = -1
# Partitions in a scrape; those above have no lag then. A request for them takes a leader 100 ms, in slices.
_ASKED_MAX: Final = 10_000
_STEP_OFFSETS: Final = 256


class EndOffsets:
    """The high watermarks of partitions. `prepare` asks leaders for those that have no replica here."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupCoordinatorShard],
        manager: ReplicaManager,
        connections: BrokerConnections,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._runtime = runtime
        self._manager = manager
        self._connections = connections
        self._image = image
        self._remote: dict[TopicPartition, int] = {}

    def end_offset(self, topic: str, partition: int) -> int | None:
        """The partition's high watermark; None if it is not known."""
        local = self._manager.topics.get(topic)
        replica = None if local is None else local.partitions.get(partition)
        if replica is not None and replica.log is not None:
            return replica.high_watermark
        return self._remote.get((topic, partition))

    async def prepare(self) -> None:
        """Ask the leaders of partitions without a replica here. Forgets their earlier answers."""
        self._remote = {}
        by_leader = await self._missing()
        async with trio.open_nursery() as nursery:
            for leader, partitions in by_leader.items():
                nursery.start_soon(partial(self._ask, leader, partitions))

    async def _missing(self) -> dict[int, dict[str, list[int]]]:
        """The partitions to ask for, by leader and topic."""
        missing: dict[int, dict[str, list[int]]] = {}
        seen: set[TopicPartition] = set()
        for number, (_, topic, partition, _) in enumerate(committed_offsets(self._runtime.active_states)):
            if not number % _STEP_OFFSETS:
                await trio.lowlevel.checkpoint()
            if (topic, partition) in seen or self.end_offset(topic, partition) is not None:
                continue
            image = self._image().topics.by_name.get(topic)
            known = None if image is None else image.partitions.get(partition)
            if known is not None and known.leader >= 0 and len(seen) < _ASKED_MAX:
                seen.add((topic, partition))
                missing.setdefault(known.leader, {}).setdefault(topic, []).append(partition)
        return missing

    async def _ask(self, leader: int, partitions: dict[str, list[int]]) -> None:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes],
            )
            for topic, indexes in partitions.items()
        ]
        request = ListOffsetsRequest(replica_id=_CONSUMER_REPLICA_ID, topics=topics)
        try:
            response = await self._connections.call(leader, request, _VERSION)
        except ConnectionLost:
            return
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.NONE:
                    self._remote[topic.name, each.partition_index] = each.offset
