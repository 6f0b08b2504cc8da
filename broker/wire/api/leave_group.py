"""LeaveGroup (key 13): members leave, or an administrator removes them.

Flexible from 4. Notable versions:
    3  several members, also by their instance ids (KIP-345)
    5  the reason (KIP-800)
"""

from typing import Final

from broker.wire.schema import field, request, response, struct


@struct
class MemberIdentity:
    """A static member can be named by its `group_instance_id` alone."""

    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    reason: str | None = field("string", "5+", default=None, nullable="5+")


# All members of a request leave in one decision. So many members with ids of coordinators, of at least 37 bytes, do not
# fit into a request: the bound is for shorter ids, which come from outside.
_ELEMENTS_MAX: Final = 10_000


@request(key=13, versions="0-5", flexible="4+", elements_max=_ELEMENTS_MAX)
class LeaveGroupRequest:
    """One member until version 2, `members` from version 3 on."""

    group_id: str = field("string", "0+", default="")
    member_id: str = field("string", "0-2", default="")
    members: list[MemberIdentity] = field([MemberIdentity], "3+", factory=list)


@struct
class MemberResponse:
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", default="", nullable="3+")
    error_code: int = field("int16", "3+", default=0)


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+", default=0)
    members: list[MemberResponse] = field([MemberResponse], "3+", factory=list)
