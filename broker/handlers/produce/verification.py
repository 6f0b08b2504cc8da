"""Transactional produce requests: a batch that may begin a transaction waits for the coordinator (KIP-890).

With transaction version 2 (Produce from version 12 on), the coordinator adds the partitions at this moment. Later
batches of an open transaction do not wait.
"""

from typing import Final

from broker.coordinator.transaction.transaction import ProducerIdAndEpoch, TopicPartition
from broker.coordinator.transaction.verification import ClientSupport
from broker.replication.partition import Partition
from broker.server.context import BrokerContext
from broker.storage.verifications import Verification
from broker.wire.api.produce import ProduceRequest
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import HEADER_SIZE, BatchHeader, read_header

_TOPIC_IDS_FROM: Final = 13
_ADDS_FROM: Final = 12
_ABORTABLE_FROM: Final = 11


class VerificationFailed(KafkaError):
    """The partition does not belong to the producer's transaction. As in Kafka, the log is then not looked at."""


class TransactionalProduce:
    """The verifications of one request and their outcomes. `is_verified` is false if a config disables them."""

    def __init__(self, context: BrokerContext, request: ProduceRequest) -> None:
        self._context = context
        self._transactional_id = request.transactional_id or ""
        version = context.api_version
        self._support = ClientSupport.NONE
        if version >= _ADDS_FROM:
            self._support = ClientSupport.ADDS_PARTITIONS
        elif version >= _ABORTABLE_FROM:
            self._support = ClientSupport.ABORTABLE_ERROR
        self.is_verified = version >= _ADDS_FROM or context.services.config.transaction_partition_verification_enable
        self._producer: ProducerIdAndEpoch | None = None
        self._begun: dict[TopicPartition, Verification] = {}
        self._verdicts: dict[TopicPartition, ErrorCode] = {}
        if self.is_verified:
            self._begin(request)

    @property
    def must_wait(self) -> bool:
        """True if the coordinator has to be asked."""
        return bool(self._begun)

    def _begin(self, request: ProduceRequest) -> None:
        partitions = self._context.services.partitions
        for topic_data in request.topic_data:
            key = topic_data.topic_id if self._context.api_version >= _TOPIC_IDS_FROM else topic_data.name
            topic = partitions.topic(key)
            for data in topic_data.partition_data:
                partition = None if topic is None else topic.partitions.get(data.index)
                header = _transactional_header(data.records)
                if partition is not None and header is not None:
                    self._begin_in(partition, header)

    def _begin_in(self, partition: Partition, header: BatchHeader) -> None:
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        if self._producer not in (None, producer):
            return  # a request has one producer; the batch of another one is refused when it is appended
        self._producer = producer
        if partition.leads and partition.log is not None:
            try:
                verification = partition.log.producers.begin_verification(
                    *producer, header.base_sequence, has_own_epoch=self._support is ClientSupport.ADDS_PARTITIONS
                )
            except KafkaError as error:
                self._verdicts[partition.topic, partition.index] = error.code
                return
            if verification is not None:
                self._begun[partition.topic, partition.index] = verification

    async def verify(self) -> None:
        """Have the coordinator verify all partitions in which a transaction may begin."""
        assert self._producer is not None, "there is something to verify"
        self._verdicts |= await self._context.services.transaction_verifier.verify(
            self._transactional_id, self._producer, tuple(self._begun), self._support
        )

    def check(self, partition: Partition, records: memoryview) -> None:
        """Check a batch that is about to be appended. Raises KafkaError, VerificationFailed."""
        header = _transactional_header(records)
        if header is None:
            return
        place = (partition.topic, partition.index)
        code = self._verdicts.get(place, ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            raise VerificationFailed(code, _message(code))
        # An append refuses records of a producer without sequence numbers, before the transaction matters.
        if self.is_verified and header.base_sequence >= 0:
            producers = partition.leader_log().producers
            producers.check_verified(
                header.producer_id, header.producer_epoch, header.base_sequence, self._begun.get(place)
            )


def _message(code: ErrorCode) -> str:
    if code is ErrorCode.INVALID_TXN_STATE:
        return "Partition was not added to the transaction"
    return f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"


def _transactional_header(records: memoryview | None) -> BatchHeader | None:
    """The header of a transactional batch; None for other batches and for invalid ones."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    try:
        header = read_header(records)
    except WireError:
        return None
    return header if header.is_transactional and header.producer_id >= 0 else None
