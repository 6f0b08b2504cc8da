"""OffsetForLeaderEpoch (key 23): the end offset of an epoch, for finding the point of divergence (KIP-101, KIP-320).

Flexible from 4. Version 3 adds the replica id; -2 stands for a consumer.
"""

from broker.wire.schema import field, request, response, struct


@struct
class OffsetForLeaderPartition:
    partition: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "2+", default=-1)
    leader_epoch: int = field("int32", "0+", default=0)


@struct
class OffsetForLeaderTopic:
    topic: str = field("string", "0+", default="")
    partitions: list[OffsetForLeaderPartition] = field([OffsetForLeaderPartition], "0+", factory=list)


@request(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int = field("int32", "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field([OffsetForLeaderTopic], "0+", factory=list)


@struct
class EpochEndOffset:
    """`end_offset` is where `leader_epoch` ended; both are -1 when it is not known."""

    error_code: int = field("int16", "0+", default=0)
    partition: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "1+", default=-1)
    end_offset: int = field("int64", "0+", default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = field("string", "0+", default="")
    partitions: list[EpochEndOffset] = field([EpochEndOffset], "0+", factory=list)


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = field([OffsetForLeaderTopicResult], "0+", factory=list)
