"""CreatePartitions (key 37): add partitions to topics (KIP-195).

Flexible from 2; 3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from broker.wire.schema import field, request, response, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(["int32"], "0+", factory=list)


@struct
class CreatePartitionsTopic:
    """`count` is the new total; `assignments` are for the added partitions only, None to have them placed."""

    name: str = field("string", "0+", default="")
    count: int = field("int32", "0+", default=0)
    assignments: list[CreatePartitionsAssignment] | None = field(
        [CreatePartitionsAssignment], "0+", factory=list, nullable="0+"
    )


@request(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field([CreatePartitionsTopic], "0+", factory=list)
    timeout_ms: int = field("int32", "0+", default=0)
    validate_only: bool = field("bool", "0+", default=False)


@struct
class CreatePartitionsTopicResult:
    name: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[CreatePartitionsTopicResult] = field([CreatePartitionsTopicResult], "0+", factory=list)
