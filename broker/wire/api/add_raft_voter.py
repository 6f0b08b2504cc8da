"""AddRaftVoter (key 80): make a replica of the metadata log a voter (KIP-853).

Always flexible. Notable versions:
    1  the answer may come when the change is written, before it is committed (KIP-1186)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class Listener:
    name: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


@request(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """With `cluster_id` null the cluster is not checked."""

    cluster_id: str | None = field("string", "0+", default="", nullable="0+")
    timeout_ms: int = field("int32", "0+", default=0)
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    listeners: list[Listener] = field([Listener], "0+", factory=list)
    ack_when_committed: bool = field("bool", "1+", default=True)


@response(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
