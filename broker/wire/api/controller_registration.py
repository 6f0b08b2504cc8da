"""ControllerRegistration (key 70): a controller registers its id, its endpoints and its features (KIP-919)."""

from broker.wire.registered import Feature, Listener
from broker.wire.schema import field, request, response
from broker.wire.uuids import ZERO_UUID


@request(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    """`incarnation_id` is a new random id for each start of the controller's process."""

    controller_id: int = field("int32", "0+", default=0)
    incarnation_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    zk_migration_ready: bool = field("bool", "0+", default=False)
    listeners: list[Listener] = field([Listener], "0+", factory=list)
    features: list[Feature] = field([Feature], "0+", factory=list)


@response(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
