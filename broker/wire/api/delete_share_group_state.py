"""DeleteShareGroupState (key 86): a group coordinator has the state of share-partitions deleted (KIP-932).

Flexible from 0.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class PartitionData:
    partition: int = field("int32", "0+", default=0)


@struct
class DeleteStateData:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@request(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[DeleteStateData] = field([DeleteStateData], "0+", factory=list)


@struct
class PartitionResult:
    partition: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@struct
class DeleteStateResult:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@response(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field([DeleteStateResult], "0+", factory=list)
