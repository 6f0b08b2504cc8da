"""AddPartitionsToTxn (key 24): partitions that a transaction is about to write to.

Clients add partitions of one transaction (versions 0 to 3). The leaders of partitions ask about many transactions at
once: whether partitions belong to them, or to add them (KIP-890).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.coordinator.runtime.completion import Completion, completed, gather
from broker.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, ProducerIdAndEpoch, TopicPartition
from broker.handlers.topic_names import is_internal
from broker.net.completion import Completion as OwnCompletion
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage
from metadata.protocol import AclOperation, ResourceType

_BROKERS_FROM: Final = 4
_FENCED_FROM: Final = 2


def add_partitions_to_txn(
    context: BrokerContext, request: AddPartitionsToTxnRequest
) -> Work[AddPartitionsToTxnResponse]:
    if context.api_version >= _BROKERS_FROM and not context.allows_cluster(AclOperation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    transactions = _transactions(context, request)
    completions = []
    for number, transaction in enumerate(transactions, 1):
        completions.append((yield from _decide(context, transaction)))
        if not number % STEP_ITEMS:
            yield None
    outcomes = yield from gather(completions)
    results = []
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        topic_results = yield from _results(context, transaction.topics, outcome)
        results.append(
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topic_results)
        )
        if not len(results) % STEP_ITEMS:
            yield None
    if context.api_version < _BROKERS_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _transactions(context: BrokerContext, request: AddPartitionsToTxnRequest) -> list[AddPartitionsToTxnTransaction]:
    """The transactions of a broker's request, or the one of a client."""
    if context.api_version >= _BROKERS_FROM:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _decide(context: BrokerContext, transaction: AddPartitionsToTxnTransaction) -> Steps[Completion[list[ErrorCode]]]:
    """Completes with an error code for each of the partitions. They are added all or none."""
    places = _partitions(transaction.topics)
    if context.api_version < _BROKERS_FROM and not context.allows(
        AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        return completed([ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * len(places))
    refusals = yield from each(partial(_refusal, context, context.services.loader.image), places)
    if len(places) >= STEP_ITEMS:
        yield
    if any(refusals):
        return completed([code or ErrorCode.OPERATION_NOT_ATTEMPTED for code in refusals])
    coordinator = context.services.transactions
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return coordinator.verify_partitions(transaction.transactional_id, producer, tuple(places))
    client_version = EPOCH_PER_TRANSACTION if context.api_version >= _BROKERS_FROM else 0
    added = coordinator.add_partitions(transaction.transactional_id, producer, tuple(places), client_version)
    codes: Completion[list[ErrorCode]] = OwnCompletion()
    added.then(
        lambda outcome: codes.complete(outcome if isinstance(outcome, KafkaError) else [ErrorCode.NONE] * len(places))
    )
    return codes


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _refusal(context: BrokerContext, image: MetadataImage, place: TopicPartition) -> ErrorCode:
    """NONE, or why the partition cannot belong to a transaction of this client."""
    name, index = place
    if context.api_version < _BROKERS_FROM and (
        is_internal(name) or not context.allows(AclOperation.WRITE, ResourceType.TOPIC, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = image.topics.by_name.get(name)
    if topic is None or index not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _results(
    context: BrokerContext, topics: Sequence[AddPartitionsToTxnTopic], outcome: list[ErrorCode] | KafkaError
) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    count = sum(len(topic.partitions) for topic in topics)
    codes = iter([outcome.code] * count if isinstance(outcome, KafkaError) else outcome)
    results = []
    for topic in topics:
        partitions = yield from each(
            lambda index: AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=_for_version(next(codes), context.api_version)
            ),
            topic.partitions,
        )
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
        if not len(results) % STEP_ITEMS:
            yield
    return results


def _for_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


HANDLER = Handler(AddPartitionsToTxnRequest, add_partitions_to_txn, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
