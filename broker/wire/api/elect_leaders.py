"""ElectLeaders (key 43): elect new leaders of partitions (KIP-460).

Flexible from 2. Notable versions:
    0  elects preferred leaders only
    1  the type of the election, and an error for the request as a whole
"""

from broker.wire.schema import field, request, response, struct


@struct
class TopicPartitions:
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@request(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """`election_type` is 0 for the preferred replica, 1 for any live replica. `topic_partitions` is None for all."""

    election_type: int = field("int8", "1+", default=0)
    topic_partitions: list[TopicPartitions] | None = field([TopicPartitions], "0+", factory=list, nullable="0+")
    timeout_ms: int = field("int32", "0+", default=60000)


@struct
class PartitionResult:
    partition_id: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


@struct
class ReplicaElectionResult:
    topic: str = field("string", "0+", default="")
    partition_result: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@response(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field([ReplicaElectionResult], "0+", factory=list)
