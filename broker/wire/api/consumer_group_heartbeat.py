"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group of the consumer protocol (KIP-848).

Flexible from 0. Notable versions:
    1  subscriptions by regular expression; members name themselves (KIP-1082)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class TopicPartitions:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+", factory=list)


@request(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """`member_epoch` is 0 to join, -1 to leave, -2 if a static member leaves temporarily.

    Fields that are None, and a `rebalance_timeout_ms` of -1, have not changed since the last heartbeat.
    `topic_partitions` are the partitions that the member owns.
    """

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0+", default="")
    member_epoch: int = field("int32", "0+", default=0)
    instance_id: str | None = field("string", "0+", default=None, nullable="0+")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    subscribed_topic_names: list[str] | None = field(["string"], "0+", default=None, nullable="0+")
    subscribed_topic_regex: str | None = field("string", "1+", default=None, nullable="1+")
    server_assignor: str | None = field("string", "0+", default=None, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = field([TopicPartitions], "0+", default=None, nullable="0+")


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field([TopicPartitions], "0+", factory=list)


@response(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """`assignment` has the partitions that the member may own now; None if it has not changed."""

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    member_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_epoch: int = field("int32", "0+", default=0)
    heartbeat_interval_ms: int = field("int32", "0+", default=0)
    assignment: Assignment | None = field(Assignment, "0+", default=None, nullable="0+")
