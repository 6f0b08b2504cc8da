"""AlterPartitionReassignments (key 45): move replicas of partitions to other brokers (KIP-455).

Always flexible. 1 may forbid that this changes how many there are (KIP-860).
"""

from broker.wire.schema import field, request, response, struct


@struct
class ReassignablePartition:
    """`replicas` are the brokers, the preferred leader first; None cancels the reassignment that goes on."""

    partition_index: int = field("int32", "0+", default=0)
    replicas: list[int] | None = field(["int32"], "0+", default=None, nullable="0+")


@struct
class ReassignableTopic:
    name: str = field("string", "0+", default="")
    partitions: list[ReassignablePartition] = field([ReassignablePartition], "0+", factory=list)


@request(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = field("int32", "0+", default=60_000)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    topics: list[ReassignableTopic] = field([ReassignableTopic], "0+", factory=list)


@struct
class ReassignablePartitionResponse:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


@struct
class ReassignableTopicResponse:
    name: str = field("string", "0+", default="")
    partitions: list[ReassignablePartitionResponse] = field([ReassignablePartitionResponse], "0+", factory=list)


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    responses: list[ReassignableTopicResponse] = field([ReassignableTopicResponse], "0+", factory=list)
