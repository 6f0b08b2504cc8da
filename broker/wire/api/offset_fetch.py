"""OffsetFetch (key 9): the offsets that groups have committed.

Flexible from 6. Notable versions:
    2  null topics ask for all of the group's offsets; errors of the group as a whole (KIP-88)
    5  the leader epoch of what was consumed last (KIP-320)
    7  stable offsets only, on request: none that an open transaction may replace (KIP-447)
    8  many groups in one request (KIP-709)
    9  members of the consumer protocol say so, and are checked (KIP-848)
    10 topics by id instead of name (KIP-516)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class OffsetFetchRequestTopic:
    """A topic of the request's only group, until version 7."""

    name: str = field("string", "0-7", default="")
    partition_indexes: list[int] = field(["int32"], "0-7", factory=list)


@struct
class OffsetFetchRequestTopics:
    """A topic of one of the request's groups, from version 8 on."""

    name: str = field("string", "8-9", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    partition_indexes: list[int] = field(["int32"], "8+", factory=list)


@struct
class OffsetFetchRequestGroup:
    """`topics` of None ask for all; members of the consumer protocol give their id and epoch."""

    group_id: str = field("string", "8+", default="")
    member_id: str | None = field("string", "9+", default=None, nullable="9+")
    member_epoch: int = field("int32", "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field([OffsetFetchRequestTopics], "8+", factory=list, nullable="8+")


@request(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """One group until version 7, `groups` from version 8 on."""

    group_id: str = field("string", "0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field([OffsetFetchRequestTopic], "0-7", factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field([OffsetFetchRequestGroup], "8+", factory=list)
    require_stable: bool = field("bool", "7+", default=False)


@struct
class OffsetFetchResponsePartition:
    """`committed_offset` is -1 where nothing is committed."""

    partition_index: int = field("int32", "0-7", default=0)
    committed_offset: int = field("int64", "0-7", default=0)
    committed_leader_epoch: int = field("int32", "5-7", default=-1)
    metadata: str | None = field("string", "0-7", default="", nullable="0-7")
    error_code: int = field("int16", "0-7", default=0)


@struct
class OffsetFetchResponseTopic:
    name: str = field("string", "0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = field([OffsetFetchResponsePartition], "0-7", factory=list)


@struct
class OffsetFetchResponsePartitions:
    """`committed_offset` is -1 where nothing is committed."""

    partition_index: int = field("int32", "8+", default=0)
    committed_offset: int = field("int64", "8+", default=0)
    committed_leader_epoch: int = field("int32", "8+", default=-1)
    metadata: str | None = field("string", "8+", default="", nullable="8+")
    error_code: int = field("int16", "8+", default=0)


@struct
class OffsetFetchResponseTopics:
    name: str = field("string", "8-9", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = field([OffsetFetchResponsePartitions], "8+", factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: str = field("string", "8+", default="")
    topics: list[OffsetFetchResponseTopics] = field([OffsetFetchResponseTopics], "8+", factory=list)
    error_code: int = field("int16", "8+", default=0)


@response(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: list[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic], "0-7", factory=list)
    error_code: int = field("int16", "2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field([OffsetFetchResponseGroup], "8+", factory=list)
