"""FindCoordinator (key 10): which broker coordinates a group, a transactional id or a share group.

Flexible from 3. Notable versions:
    1  the kind of key, for transactions
    4  many keys in one request (KIP-699)
    6  share groups (KIP-932)
"""

from broker.wire.schema import field, request, response, struct


@request(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """`key_type`: 0 group, 1 transaction, 2 share group. `key` until version 3, `coordinator_keys` from 4 on."""

    key: str = field("string", "0-3", default="")
    key_type: int = field("int8", "1+", default=0)
    coordinator_keys: list[str] = field(["string"], "4+", factory=list)


@struct
class Coordinator:
    key: str = field("string", "4+", default="")
    node_id: int = field("int32", "4+", default=0)
    host: str = field("string", "4+", default="")
    port: int = field("int32", "4+", default=0)
    error_code: int = field("int16", "4+", default=0)
    error_message: str | None = field("string", "4+", default="", nullable="4+")


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0-3", default=0)
    error_message: str | None = field("string", "1-3", default="", nullable="1-3")
    node_id: int = field("int32", "0-3", default=0)
    host: str = field("string", "0-3", default="")
    port: int = field("int32", "0-3", default=0)
    coordinators: list[Coordinator] = field([Coordinator], "4+", factory=list)
