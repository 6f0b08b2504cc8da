"""UnregisterBroker (key 64): remove the registration of a broker that is gone for good (KIP-631). Always flexible."""

from broker.wire.schema import field, request, response


@request(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = field("int32", "0+", default=0)


@response(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
