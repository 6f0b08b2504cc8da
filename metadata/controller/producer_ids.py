"""Allocation of producer ids to brokers, in blocks."""

from kraft import lazy_attrs
from metadata.controller.brokers import check_broker_epoch
from metadata.controller.decision import Decision
from metadata.image import MetadataImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000
_INT64_MAX = (1 << 63) - 1


@lazy_attrs.frozen
class ProducerIdsBlock:
    """The ids `first_producer_id`, ..., `first_producer_id + size - 1`."""

    first_producer_id: int
    size: int = PRODUCER_ID_BLOCK_SIZE


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[ProducerIdsBlock]:
    """Allocate the next block to a registered broker.

    Raises KafkaError: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if all ids are used.
    """
    check_broker_epoch(image, broker_id, broker_epoch)
    block = ProducerIdsBlock(image.next_producer_id)
    if block.first_producer_id > _INT64_MAX - block.size:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=block.first_producer_id + block.size
    )
    return Decision([record], block)
