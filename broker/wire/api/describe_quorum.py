"""DescribeQuorum (key 55): the quorum's leader, its voters and observers, and the progress of each (KIP-595).

Always flexible. Notable versions:
    1  when a replica last fetched, and last was caught up (KIP-836)
    2  error messages, directory ids, and the voters' endpoints (KIP-853)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class RequestedPartition:
    partition_index: int = field("int32", "0+", default=0)


@struct
class RequestedTopic:
    topic_name: str = field("string", "0+", default="")
    partitions: list[RequestedPartition] = field([RequestedPartition], "0+", factory=list)


@request(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[RequestedTopic] = field([RequestedTopic], "0+", factory=list)


@struct
class ReplicaState:
    """Timestamps are the leader's wall clock in milliseconds; -1 is unknown."""

    replica_id: int = field("int32", "0+", default=0)
    replica_directory_id: bytes = field("uuid", "2+", default=ZERO_UUID)
    log_end_offset: int = field("int64", "0+", default=0)
    last_fetch_timestamp: int = field("int64", "1+", default=-1)
    last_caught_up_timestamp: int = field("int64", "1+", default=-1)


@struct
class PartitionData:
    """`leader_id` is -1 while no leader is known."""

    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "2+", default="", nullable="2+")
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    high_watermark: int = field("int64", "0+", default=0)
    current_voters: list[ReplicaState] = field([ReplicaState], "0+", factory=list)
    observers: list[ReplicaState] = field([ReplicaState], "0+", factory=list)


@struct
class TopicData:
    topic_name: str = field("string", "0+", default="")
    partitions: list[PartitionData] = field([PartitionData], "0+", factory=list)


@struct
class Listener:
    name: str = field("string", "2+", default="")
    host: str = field("string", "2+", default="")
    port: int = field("uint16", "2+", default=0)


@struct
class Node:
    node_id: int = field("int32", "2+", default=0)
    listeners: list[Listener] = field([Listener], "2+", factory=list)


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "2+", default="", nullable="2+")
    topics: list[TopicData] = field([TopicData], "0+", factory=list)
    nodes: list[Node] = field([Node], "2+", factory=list)
