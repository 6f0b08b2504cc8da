"""AllocateProducerIds (key 67): a broker takes a block of producer ids (KIP-730). Always flexible."""

from broker.wire.schema import field, request, response


@request(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)


@response(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """The block begins at `producer_id_start` and has `producer_id_len` ids."""

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    producer_id_start: int = field("int64", "0+", default=0)
    producer_id_len: int = field("int32", "0+", default=0)
