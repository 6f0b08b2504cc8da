"""BrokerRegistration (key 62): a broker registers with the active controller (KIP-631).

Always flexible. Notable versions:
    1  the broker of a ZooKeeper cluster that migrates says so (KIP-866)
    2  the log directories that are online (KIP-858)
    3  the epoch of the clean shutdown before, or -1 after an unclean one (KIP-966)
    4  lists features whose lowest level is 0, too
"""

from broker.wire.registered import Feature, Listener
from broker.wire.schema import field, request, response
from broker.wire.uuids import ZERO_UUID


@request(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    """`incarnation_id` is a new random id for each start of the broker's process."""

    broker_id: int = field("int32", "0+", default=0)
    cluster_id: str = field("string", "0+", default="")
    incarnation_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    listeners: list[Listener] = field([Listener], "0+", factory=list)
    features: list[Feature] = field([Feature], "0+", factory=list)
    rack: str | None = field("string", "0+", default="", nullable="0+")
    is_migrating_zk_broker: bool = field("bool", "1+", default=False)
    log_dirs: list[bytes] = field(["uuid"], "2+", factory=list)
    previous_broker_epoch: int = field("int64", "3+", default=-1)


@response(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
