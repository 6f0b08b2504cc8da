"""DescribeGroups (key 15): the state and the members of classic groups.

Flexible from 5. Notable versions:
    3  authorized operations, on request (KIP-430)
    4  static members (KIP-345)
    6  an error message; a group that is not there is an error (KIP-1043)
"""

from typing import Final

from broker.wire.schema import field, request, response, struct

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)


@request(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = field(["string"], "0+", factory=list)
    include_authorized_operations: bool = field("bool", "3+", default=False)


@struct
class DescribedGroupMember:
    """`member_metadata` and `member_assignment` are the client's own; the metadata is there in a stable group only."""

    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "4+", default=None, nullable="4+")
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    member_metadata: bytes = field("bytes", "0+", default=b"")
    member_assignment: bytes = field("bytes", "0+", default=b"")


@struct
class DescribedGroup:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "6+", default=None, nullable="6+")
    group_id: str = field("string", "0+", default="")
    group_state: str = field("string", "0+", default="")
    protocol_type: str = field("string", "0+", default="")
    protocol_data: str = field("string", "0+", default="")
    members: list[DescribedGroupMember] = field([DescribedGroupMember], "0+", factory=list)
    authorized_operations: int = field("int32", "3+", default=NO_AUTHORIZED_OPERATIONS)


@response(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    groups: list[DescribedGroup] = field([DescribedGroup], "0+", factory=list)
