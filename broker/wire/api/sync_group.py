"""SyncGroup (key 14): the leader gives each member its assignment, every member gets its own.

Flexible from 4. Notable versions:
    3  static members (KIP-345)
    5  the protocol's type and name, on both sides (KIP-559)
"""

from typing import Final

from broker.wire.schema import field, request, response, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = field("string", "0+", default="")
    assignment: bytes = field("bytes", "0+", default=b"")


# One for each member of the group. The leader's assignments are taken over in one decision.
_ELEMENTS_MAX: Final = 20_000


@request(key=14, versions="0-5", flexible="4+", elements_max=_ELEMENTS_MAX)
class SyncGroupRequest:
    """`assignments` come from the leader; those of the others are empty."""

    group_id: str = field("string", "0+", default="")
    generation_id: int = field("int32", "0+", default=0)
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")
    protocol_type: str | None = field("string", "5+", default=None, nullable="5+")
    protocol_name: str | None = field("string", "5+", default=None, nullable="5+")
    assignments: list[SyncGroupRequestAssignment] = field([SyncGroupRequestAssignment], "0+", factory=list)


@response(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+", default=0)
    protocol_type: str | None = field("string", "5+", default=None, nullable="5+")
    protocol_name: str | None = field("string", "5+", default=None, nullable="5+")
    assignment: bytes = field("bytes", "0+", default=b"")
