"""InitializeShareGroupState (key 83): a group coordinator has the state of share-partitions created (KIP-932).

Flexible from 0.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class PartitionData:
    """`start_offset` is -1 if the share-partition's leader has yet to find it."""

    partition: int = field("int32", "0+", default=0)
    state_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)


@struct
class InitializeStateData:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@request(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[InitializeStateData] = field([InitializeStateData], "0+", factory=list)


@struct
class PartitionResult:
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@struct
class InitializeStateResult:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@response(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field([InitializeStateResult], "0+", factory=list)
