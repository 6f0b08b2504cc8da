"""Builds Produce requests from batches, splits Produce responses by partition, and decides what error codes lead to."""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

import attrs

from broker.client.brokers import Broker
from broker.client.errors import KafkaError, check, is_retriable
from broker.client.metadata_cache import MetadataCache
from broker.client.producer.batch import Batch
from broker.client.producer.compression_ratio import CompressionRatios
from broker.client.producer.config import ProducerConfig
from broker.client.producer.transaction_state import ProducerTransaction
from broker.client.records import encode_records
from broker.client.types import TopicPartition
from broker.printable import printable
from broker.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression
from broker.wire.uuids import ZERO_UUID

_UNKNOWN_OFFSET: Final = -1
_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# Since this version topics have their ids instead of their names (KIP-516).
_TOPIC_IDS_SINCE: Final = 13
# From this version on, a batch adds its partition to the transaction (KIP-890).
_ADDS_PARTITIONS_SINCE: Final = 12
_ZSTD_SINCE: Final = 7
_RECORDS_V2_SINCE: Final = 3
_PART_OF_BAD_BATCH: Final = "the record was not written because another record of its batch was refused"


@attrs.frozen
class PostedRequest:
    """A Produce request in the version in which it is sent. `names` has the names of its topics by id."""

    message: ProduceRequest
    version: int
    names: Mapping[bytes, str]


class ProduceRequests:
    """Builds the requests of one producer."""

    def __init__(
        self, config: ProducerConfig, ratios: CompressionRatios, transaction: ProducerTransaction | None = None
    ) -> None:
        self._config = config
        self._ratios = ratios
        self._transaction = transaction
        self._lowest = _ZSTD_SINCE if config.compression is Compression.ZSTD else _RECORDS_V2_SINCE

    def build(self, broker: Broker, metadata: MetadataCache, batches: Iterable[Batch]) -> PostedRequest:
        """Raises UnsupportedByBroker where the broker has no version for the compression, or for the transaction."""
        topics: dict[str, TopicProduceData] = {}
        names: dict[bytes, str] = {}
        for batch in batches:
            name, index = batch.partition
            topic = topics.get(name)
            if topic is None:
                known = metadata.topic(name)
                topic_id = ZERO_UUID if known is None else known.id
                names[topic_id] = name
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            topic.partition_data.append(PartitionProduceData(index=index, records=memoryview(self._encoded(batch))))
        lowest, highest = self._lowest, _TOPIC_IDS_SINCE - 1 if ZERO_UUID in names else None
        if self._transaction is not None and self._transaction.is_v2:
            lowest = _ADDS_PARTITIONS_SINCE
        elif self._transaction is not None:
            highest = _ADDS_PARTITIONS_SINCE - 1
        version = broker.version_of(ProduceRequest, lowest=lowest, highest=highest)
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=int(self._config.request_timeout_ms),
            topic_data=list(topics.values()),
        )
        return PostedRequest(request, version, names)

    def _encoded(self, batch: Batch) -> bytes:
        if batch.encoded is None:
            compression = self._config.compression
            batch.encoded = encode_records(
                batch.records,
                compression=compression,
                compression_level=self._config.compression_level,
                producer_id=batch.identity.producer_id,
                producer_epoch=batch.identity.epoch,
                base_sequence=batch.base_sequence,
                is_transactional=self._transaction is not None,
            )
            if compression is not Compression.NONE:
                self._ratios.observe(batch.partition.topic, batch.size, len(batch.encoded))
        return batch.encoded


def responses_by_partition(
    posted: PostedRequest, response: ProduceResponse
) -> dict[TopicPartition, PartitionProduceResponse]:
    """The responses to a request's batches. Partitions that were not asked about are left out."""
    found = {}
    for topic in response.responses:
        name = posted.names.get(topic.topic_id) if posted.version >= _TOPIC_IDS_SINCE else topic.name
        if name is not None:
            for partition in topic.partition_responses:
                found[TopicPartition(name, partition.index)] = partition
    return found


def failure_of(response: PartitionProduceResponse) -> KafkaError:
    """The error of a batch."""
    try:
        check(response.error_code, response.error_message)
    except KafkaError as error:
        return error
    raise AssertionError("only a batch with an error has failed")


def record_errors_of(response: PartitionProduceResponse, record_count: int) -> dict[int, Exception]:
    """The errors of single records, where the broker names those that spoiled the batch (KIP-467)."""
    if not response.record_errors:
        return {}
    failure = failure_of(response)
    errors: dict[int, Exception] = dict.fromkeys(range(record_count), KafkaError(failure.code, _PART_OF_BAD_BATCH))
    for refused in response.record_errors:
        if 0 <= refused.batch_index < record_count:
            message = printable(refused.batch_index_error_message or "") or failure.message
            errors[refused.batch_index] = KafkaError(failure.code, message)
    return errors


class ProduceOutcome(Enum):
    """The next step with a batch."""

    APPENDED = auto()
    RETRY = auto()
    SPLIT = auto()
    # The leader does not have the batch before it.
    SEQUENCE_REJECTED = auto()
    FAILED = auto()


def produce_outcome(code: int, record_count: int, log_start_offset: int, *, is_idempotent: bool) -> ProduceOutcome:
    """The verdict for a batch of `record_count` records.

    DUPLICATE_SEQUENCE_NUMBER is a success whose offset the leader no longer knows. UNKNOWN_PRODUCER_ID without a log
    start offset comes from a broker that is no longer the leader, so the batch is simply sent again (KIP-360).
    """
    if code in _APPENDED:
        return ProduceOutcome.APPENDED
    if code == ErrorCode.MESSAGE_TOO_LARGE and record_count > 1:
        return ProduceOutcome.SPLIT
    if is_idempotent and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return ProduceOutcome.SEQUENCE_REJECTED
    if is_idempotent and code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return ProduceOutcome.RETRY if log_start_offset == _UNKNOWN_OFFSET else ProduceOutcome.SEQUENCE_REJECTED
    return ProduceOutcome.RETRY if is_retriable(code) else ProduceOutcome.FAILED
