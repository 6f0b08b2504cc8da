"""ListPartitionReassignments (key 46): the partitions whose replicas are being moved (KIP-455). Always flexible."""

from broker.wire.schema import field, request, response, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = field("string", "0+", default="")
    partition_indexes: list[int] = field(["int32"], "0+", factory=list)


@request(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """`topics` is None to have all listed."""

    timeout_ms: int = field("int32", "0+", default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        [ListPartitionReassignmentsTopics], "0+", default=None, nullable="0+"
    )


@struct
class OngoingPartitionReassignment:
    """`replicas` are all present replicas, including those that are added and removed."""

    partition_index: int = field("int32", "0+", default=0)
    replicas: list[int] = field(["int32"], "0+", factory=list)
    adding_replicas: list[int] = field(["int32"], "0+", factory=list)
    removing_replicas: list[int] = field(["int32"], "0+", factory=list)


@struct
class OngoingTopicReassignment:
    name: str = field("string", "0+", default="")
    partitions: list[OngoingPartitionReassignment] = field([OngoingPartitionReassignment], "0+", factory=list)


@response(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    topics: list[OngoingTopicReassignment] = field([OngoingTopicReassignment], "0+", factory=list)
