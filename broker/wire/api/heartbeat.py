"""Heartbeat (key 12): a member of a classic group reports that it is alive, and learns whether to join again.

Flexible from 4. Notable version: 3, static members (KIP-345).
"""

from broker.wire.schema import field, request, response


@request(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = field("string", "0+", default="")
    generation_id: int = field("int32", "0+", default=0)
    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "3+", default=None, nullable="3+")


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+", default=0)
