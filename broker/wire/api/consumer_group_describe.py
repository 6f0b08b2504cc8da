"""ConsumerGroupDescribe (key 69): groups of the consumer protocol, with the current and target assignments of members
(KIP-848).

Flexible from 0. Notable versions:
    1  which protocol each member speaks
"""

from typing import Final

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


@request(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = field(["string"], "0+", factory=list)
    include_authorized_operations: bool = field("bool", "0+", default=False)


@struct
class DescribedTopicPartitions:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class DescribedAssignment:
    topic_partitions: list[DescribedTopicPartitions] = field([DescribedTopicPartitions], "0+", factory=list)


@struct
class DescribedMember:
    """`member_type` is CLASSIC_MEMBER, CONSUMER_MEMBER, or -1 where it is not known."""

    member_id: str = field("string", "0+", default="")
    instance_id: str | None = field("string", "0+", default=None, nullable="0+")
    rack_id: str | None = field("string", "0+", default=None, nullable="0+")
    member_epoch: int = field("int32", "0+", default=0)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = field(["string"], "0+", factory=list)
    subscribed_topic_regex: str | None = field("string", "0+", default=None, nullable="0+")
    assignment: DescribedAssignment = field(DescribedAssignment, "0+", factory=DescribedAssignment)
    target_assignment: DescribedAssignment = field(DescribedAssignment, "0+", factory=DescribedAssignment)
    member_type: int = field("int8", "1+", default=-1)


@struct
class DescribedGroup:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    group_id: str = field("string", "0+", default="")
    group_state: str = field("string", "0+", default="")
    group_epoch: int = field("int32", "0+", default=0)
    assignment_epoch: int = field("int32", "0+", default=0)
    assignor_name: str = field("string", "0+", default="")
    members: list[DescribedMember] = field([DescribedMember], "0+", factory=list)
    authorized_operations: int = field("int32", "0+", default=-(1 << 31))


@response(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribedGroup] = field([DescribedGroup], "0+", factory=list)
