"""DescribeTopicPartitions (key 75): topics in pages, with eligible leader replicas (KIP-966). Always flexible."""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class TopicRequest:
    name: str = field("string", "0+", default="")


@struct
class Cursor:
    """Where a page begins."""

    topic_name: str = field("string", "0+", default="")
    partition_index: int = field("int32", "0+", default=0)


@request(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field([TopicRequest], "0+", factory=list)
    response_partition_limit: int = field("int32", "0+", default=2000)
    cursor: Cursor | None = field(Cursor, "0+", default=None, nullable="0+")


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = field("int16", "0+", default=0)
    partition_index: int = field("int32", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=-1)
    replica_nodes: list[int] = field(["int32"], "0+", factory=list)
    isr_nodes: list[int] = field(["int32"], "0+", factory=list)
    eligible_leader_replicas: list[int] | None = field(["int32"], "0+", default=None, nullable="0+")
    last_known_elr: list[int] | None = field(["int32"], "0+", default=None, nullable="0+")
    offline_replicas: list[int] = field(["int32"], "0+", factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = field("int16", "0+", default=0)
    name: str | None = field("string", "0+", default="", nullable="0+")
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    is_internal: bool = field("bool", "0+", default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        [DescribeTopicPartitionsResponsePartition], "0+", factory=list
    )
    topic_authorized_operations: int = field("int32", "0+", default=-2147483648)


@response(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        [DescribeTopicPartitionsResponseTopic], "0+", factory=list
    )
    next_cursor: Cursor | None = field(Cursor, "0+", default=None, nullable="0+")
