"""ReadShareGroupState (key 84): the leader of share-partitions reads their state from the share coordinator (KIP-932).

Flexible from 0.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class PartitionData:
    """`leader_epoch` is that of the reader; the coordinator refuses earlier leaders afterwards."""

    partition: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)


@struct
class ReadStateData:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@request(key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[ReadStateData] = field([ReadStateData], "0+", factory=list)


@struct
class StateBatch:
    """The records from `first_offset` to `last_offset`, which have one delivery state.

    `delivery_state` is 0 for available records, 2 for acknowledged and 4 for archived ones.
    """

    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_state: int = field("int8", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)


@struct
class PartitionResult:
    """`start_offset` is -1 if it is not initialized yet."""

    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    state_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    state_batches: list[StateBatch] = field([StateBatch], "0+", factory=list)


@struct
class ReadStateResult:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@response(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field([ReadStateResult], "0+", factory=list)
