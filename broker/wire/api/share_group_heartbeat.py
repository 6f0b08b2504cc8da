"""ShareGroupHeartbeat (key 76): join, stay in and leave a share group (KIP-932).

Flexible from 0. Version 0 was an early access of Kafka 4.0, which later releases do not serve.
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@request(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """`member_epoch` is 0 to join, -1 to leave. Fields that are None have not changed since the last heartbeat."""

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    subscribed_topic_names: list[str] | None = field(["string"], "0+", default=None, nullable="0+")


@struct
class TopicPartitions:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field([TopicPartitions], "0+", factory=list)


@response(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """`assignment` is None if it has not changed."""

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_epoch: int = field("int32", "0+", default=0)
    heartbeat_interval_ms: int = field("int32", "0+", default=0)
    assignment: Assignment | None = field(Assignment, "0+", default=None, nullable="0+")
