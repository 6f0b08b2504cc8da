"""AlterShareGroupOffsets (key 91): set the start offsets of a share group without members (KIP-932).

Flexible from 0.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = field("string", "0+", default="")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        [AlterShareGroupOffsetsRequestPartition], "0+", factory=list
    )


@request(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field([AlterShareGroupOffsetsRequestTopic], "0+", factory=list)


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        [AlterShareGroupOffsetsResponsePartition], "0+", factory=list
    )


@response(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        [AlterShareGroupOffsetsResponseTopic], "0+", factory=list
    )
