"""BrokerHeartbeat (key 63): a registered broker reports that it is alive, and the state that it wants (KIP-631).

Always flexible. Notable versions:
    1  log directories that failed (KIP-858)
    2  cordoned log directories (KIP-1066)
"""

from broker.wire.schema import field, request, response


@request(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    """`current_metadata_offset` is that of the last metadata record which the broker has applied."""

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    current_metadata_offset: int = field("int64", "0+", default=0)
    want_fence: bool = field("bool", "0+", default=False)
    want_shut_down: bool = field("bool", "0+", default=False)
    offline_log_dirs: list[bytes] = field(["uuid"], "1+", factory=list, tag=0, tagged="1+")
    cordoned_log_dirs: list[bytes] | None = field(["uuid"], "2+", default=None, nullable="2+", tag=1, tagged="2+")


@response(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    is_caught_up: bool = field("bool", "0+", default=False)
    is_fenced: bool = field("bool", "0+", default=True)
    should_shut_down: bool = field("bool", "0+", default=False)
