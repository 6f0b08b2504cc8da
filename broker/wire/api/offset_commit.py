"""OffsetCommit (key 8): commits a group's offsets, each with a text.

Flexible from 8. Notable versions:
    5  no retention time any more: only the broker's configuration counts (KIP-211)
    6  the leader epoch of what was consumed last (KIP-320)
    7  static members (KIP-345)
    9  members of the consumer protocol, by their epoch (KIP-848)
    10 topics by id instead of name (KIP-516)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class OffsetCommitRequestPartition:
    partition_index: int = field("int32", "0+", default=0)
    committed_offset: int = field("int64", "0+", default=0)
    committed_leader_epoch: int = field("int32", "6+", default=-1)
    committed_metadata: str | None = field("string", "0+", default="", nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = field("string", "0-9", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = field([OffsetCommitRequestPartition], "0+", factory=list)


@request(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """`generation_id_or_member_epoch` is -1 for a commit by a client that is no member."""

    group_id: str = field("string", "0+", default="")
    generation_id_or_member_epoch: int = field("int32", "1+", default=-1)
    member_id: str = field("string", "1+", default="")
    group_instance_id: str | None = field("string", "7+", default=None, nullable="7+")
    retention_time_ms: int = field("int64", "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field([OffsetCommitRequestTopic], "0+", factory=list)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


@struct
class OffsetCommitResponseTopic:
    name: str = field("string", "0-9", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition] = field([OffsetCommitResponsePartition], "0+", factory=list)


@response(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: list[OffsetCommitResponseTopic] = field([OffsetCommitResponseTopic], "0+", factory=list)
