"""OffsetDelete (key 47): delete a group's committed offsets of some partitions (KIP-496). Never flexible."""

from broker.wire.schema import field, request, response, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = field("int32", "0+", default=0)


@struct
class OffsetDeleteRequestTopic:
    name: str = field("string", "0+", default="")
    partitions: list[OffsetDeleteRequestPartition] = field([OffsetDeleteRequestPartition], "0+", factory=list)


@request(key=47, versions="0", flexible="1+")
class OffsetDeleteRequest:
    group_id: str = field("string", "0+", default="")
    topics: list[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic], "0+", factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


@struct
class OffsetDeleteResponseTopic:
    name: str = field("string", "0+", default="")
    partitions: list[OffsetDeleteResponsePartition] = field([OffsetDeleteResponsePartition], "0+", factory=list)


@response(key=47, versions="0", flexible="1+")
class OffsetDeleteResponse:
    """With an `error_code` of the group as a whole, there are no topics."""

    error_code: int = field("int16", "0+", default=0)
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic], "0+", factory=list)
