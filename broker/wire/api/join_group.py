"""JoinGroup (key 11): join a group of the classic protocol, or its next generation.

Flexible from 6. Notable versions:
    1  the rebalance timeout; before, the session timeout is taken for it (KIP-62)
    4  a client without a member id gets one, and joins again with it (KIP-394)
    5  static members (KIP-345)
    7  the answer names the protocol's type (KIP-559)
    8  the reason for joining (KIP-800)
    9  the response may ask the leader to leave the assignment as it is (KIP-814)
"""

from typing import Final

from broker.wire.schema import field, request, response, struct


@struct
class JoinGroupRequestProtocol:
    """`metadata` is the client's own: for consumers, their subscription."""

    name: str = field("string", "0+", default="")
    metadata: bytes = field("bytes", "0+", default=b"")


# Clients support up to five protocols. All members' protocols are counted in each decision about their group.
_ELEMENTS_MAX: Final = 100


@request(key=11, versions="0-9", flexible="6+", elements_max=_ELEMENTS_MAX)
class JoinGroupRequest:
    """`protocols` are in the order of the member's preference."""

    group_id: str = field("string", "0+", default="")
    session_timeout_ms: int = field("int32", "0+", default=0)
    rebalance_timeout_ms: int = field("int32", "1+", default=-1)
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "5+", default=None, nullable="5+")
    protocol_type: str = field("string", "0+", default="")
    protocols: list[JoinGroupRequestProtocol] = field([JoinGroupRequestProtocol], "0+", factory=list)
    reason: str | None = field("string", "8+", default=None, nullable="8+")


@struct
class JoinGroupResponseMember:
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "5+", default=None, nullable="5+")
    metadata: bytes = field("bytes", "0+", default=b"")


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """`members` is filled for the leader only, which assigns the partitions. `protocol_name` must not be None before
    version 7.
    """

    throttle_time_ms: int = field("int32", "2+", default=0)
    error_code: int = field("int16", "0+", default=0)
    generation_id: int = field("int32", "0+", default=-1)
    protocol_type: str | None = field("string", "7+", default=None, nullable="7+")
    protocol_name: str | None = field("string", "0+", default="", nullable="7+")
    leader: str = field("string", "0+", default="")
    skip_assignment: bool = field("bool", "9+", default=False)
    member_id: str = field("string", "0+", default="")
    members: list[JoinGroupResponseMember] = field([JoinGroupResponseMember], "0+", factory=list)
