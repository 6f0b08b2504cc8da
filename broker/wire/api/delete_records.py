"""DeleteRecords (key 21): move the start of partitions' logs forward (KIP-107). Flexible from 2."""

from broker.wire.schema import field, request, response, struct


@struct
class DeleteRecordsPartition:
    """`offset` is the first to keep; -1 stands for the high watermark."""

    partition_index: int = field("int32", "0+", default=0)
    offset: int = field("int64", "0+", default=0)


@struct
class DeleteRecordsTopic:
    name: str = field("string", "0+", default="")
    partitions: list[DeleteRecordsPartition] = field([DeleteRecordsPartition], "0+", factory=list)


@request(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field([DeleteRecordsTopic], "0+", factory=list)
    timeout_ms: int = field("int32", "0+", default=0)


@struct
class DeleteRecordsPartitionResult:
    """`low_watermark` is the smallest log start offset of the live replicas."""

    partition_index: int = field("int32", "0+", default=0)
    low_watermark: int = field("int64", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


@struct
class DeleteRecordsTopicResult:
    name: str = field("string", "0+", default="")
    partitions: list[DeleteRecordsPartitionResult] = field([DeleteRecordsPartitionResult], "0+", factory=list)


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[DeleteRecordsTopicResult] = field([DeleteRecordsTopicResult], "0+", factory=list)
