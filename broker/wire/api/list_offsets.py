"""ListOffsets (key 2): find offsets by timestamp, or the ends of a log.

Flexible from 6. Negative timestamps have meanings of their own: -1 latest, -2 earliest, and since version
    7  -3 the record with the largest timestamp (KIP-734)
    8  -4 the earliest offset on local disks (KIP-405)
    9  -5 the latest offset in tiered storage (KIP-1005)
    11 -6 the earliest offset that tiered storage does not have yet (KIP-1023)
Other notable versions:
    2  isolation level
    4  leader epochs (KIP-320)
    10 timeout for lookups in remote storage (KIP-1075)
"""

from broker.wire.schema import field, request, response, struct


@struct
class ListOffsetsPartition:
    """`timestamp` in milliseconds, or one of the negative ones above."""

    partition_index: int = field("int32", "0+", default=0)
    current_leader_epoch: int = field("int32", "4+", default=-1)
    timestamp: int = field("int64", "0+", default=0)


@struct
class ListOffsetsTopic:
    name: str = field("string", "0+", default="")
    partitions: list[ListOffsetsPartition] = field([ListOffsetsPartition], "0+", factory=list)


@request(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = field("int32", "0+", default=0)
    isolation_level: int = field("int8", "2+", default=0)
    topics: list[ListOffsetsTopic] = field([ListOffsetsTopic], "0+", factory=list)
    timeout_ms: int = field("int32", "10+", default=0)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    timestamp: int = field("int64", "1+", default=-1)
    offset: int = field("int64", "1+", default=-1)
    leader_epoch: int = field("int32", "4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = field("string", "0+", default="")
    partitions: list[ListOffsetsPartitionResponse] = field([ListOffsetsPartitionResponse], "0+", factory=list)


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[ListOffsetsTopicResponse] = field([ListOffsetsTopicResponse], "0+", factory=list)
