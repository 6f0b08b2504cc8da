"""Asks a leader for the start and end offsets of its logs, for followers whose fetch offset is out of range."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from broker.replication.fetch_plan import PartitionKey
from broker.replication.partition import Partition
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft import lazy_attrs

# Sends a request in a version, and returns its response. Raises ConnectionLost.
Call: TypeAlias = Callable[[Any, int], Awaitable[Any]]

_VERSION: Final = 7
_LATEST: Final = -1
_EARLIEST: Final = -2


@lazy_attrs.frozen
class LeaderLogRange:
    """The log start and log end offset of the leader of `leader_epoch`."""

    leader_epoch: int
    start_offset: int
    end_offset: int


async def fetch_leader_log_ranges(
    call: Call,
    replica_id: int,
    partitions: Mapping[PartitionKey, Partition],
    leader_epochs: Mapping[PartitionKey, int],
) -> dict[PartitionKey, LeaderLogRange]:
    """Ask the leader for the range of each partition; partitions for which it returns an error are absent.

    The end is the leader's log end offset, not the high watermark. Raises ConnectionLost.
    """
    starts, ends = [
        await _ask(call, replica_id, partitions, leader_epochs, timestamp) for timestamp in (_EARLIEST, _LATEST)
    ]
    return {
        key: LeaderLogRange(leader_epochs[key], starts[key], ends[key])
        for key in partitions
        if key in starts and key in ends
    }


async def _ask(
    call: Call,
    replica_id: int,
    partitions: Mapping[PartitionKey, Partition],
    leader_epochs: Mapping[PartitionKey, int],
    timestamp: int,
) -> dict[PartitionKey, int]:
    topics: dict[str, ListOffsetsTopic] = {}
    keys: dict[tuple[str, int], PartitionKey] = {}
    for key, partition in partitions.items():
        keys[partition.topic, partition.index] = key
        asked = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=leader_epochs[key], timestamp=timestamp
        )
        topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic)).partitions.append(asked)
    request = ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))
    response = await call(request, _VERSION)
    return {
        keys[topic.name, answer.partition_index]: answer.offset
        for topic in response.topics
        for answer in topic.partitions
        if not answer.error_code and (topic.name, answer.partition_index) in keys
    }
