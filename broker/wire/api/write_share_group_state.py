"""WriteShareGroupState (key 85): the leader of share-partitions writes their state to the share coordinator (KIP-932).

Flexible from 0. Notable versions:
    1  the number of offsets whose delivery is complete (KIP-1226)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


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
class PartitionData:
    """`start_offset` is -1 if it stays as it is. `delivery_complete_count` counts offsets from the start offset on."""

    partition: int = field("int32", "0+", default=0)
    state_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "1+", default=-1)
    state_batches: list[StateBatch] = field([StateBatch], "0+", factory=list)


@struct
class WriteStateData:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@request(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[WriteStateData] = field([WriteStateData], "0+", factory=list)


@struct
class PartitionResult:
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@struct
class WriteStateResult:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@response(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field([WriteStateResult], "0+", factory=list)
