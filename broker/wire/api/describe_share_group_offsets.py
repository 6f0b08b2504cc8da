"""DescribeShareGroupOffsets (key 90): the start offsets and the lag of share groups (KIP-932).

Flexible from 0. Notable versions:
    1  the lag of each share-partition (KIP-1226)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """`topics` is None for all share-partitions of the group."""

    group_id: str = field("string", "0+", default="")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        [DescribeShareGroupOffsetsRequestTopic], "0+", factory=list, nullable="0+"
    )


@request(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        [DescribeShareGroupOffsetsRequestGroup], "0+", factory=list
    )


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """`start_offset` and `lag` are -1 where they are not known."""

    partition_index: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    lag: int = field("int64", "1+", default=-1)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        [DescribeShareGroupOffsetsResponsePartition], "0+", factory=list
    )


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = field("string", "0+", default="")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        [DescribeShareGroupOffsetsResponseTopic], "0+", factory=list
    )
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@response(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        [DescribeShareGroupOffsetsResponseGroup], "0+", factory=list
    )
