"""Asks the transaction coordinator whether a producer's transaction includes some partitions of this broker (KIP-890).

Without this, a produce request that arrives late would begin a transaction that nothing ends. With transaction version
2, the leader of the partitions adds them itself, and clients send no AddPartitionsToTxn.

To each coordinator on another broker, one request is under way at a time, with all transactions that have come together
meanwhile.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

import attrs
import trio

from broker.client import ConnectionLost
from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, ProducerIdAndEpoch, TopicPartition
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.background_tasks import BackgroundTasks
from metadata.image import MetadataImage

_VERSION: Final = 5
# Errors after which the client only has to try again; older clients do not expect them from a partition's leader.
_RETRIABLE: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

# Bytes of the transactions in one request; coordinators accept requests of 64 KiB.
_REQUEST_BYTES_MAX: Final = 48 * 1024
# The bytes of a partition, and at most those that surround a name.
_NUMBER_BYTES: Final = 4
_FRAME_BYTES: Final = 32

Verdicts = dict[TopicPartition, ErrorCode]


class ClientSupport(Enum):
    """The client's version of Produce or TxnOffsetCommit may know an error for transactions that have to be aborted. A
    later version leaves it to the partition's leader to add the partition to the transaction.
    """

    NONE = "none"
    ABORTABLE_ERROR = "abortable error"
    ADDS_PARTITIONS = "adds partitions"


@lazy_attrs.define(eq=False)
class _Verification:
    """The question of a partition leader about one transaction. `verdicts` has the answer when `answered` is set."""

    transaction: AddPartitionsToTxnTransaction
    partitions: tuple[TopicPartition, ...]
    verdicts: Verdicts = attrs.field(factory=dict)
    answered: trio.Event = attrs.field(factory=trio.Event)

    def answer(self, verdicts: Verdicts) -> None:
        self.verdicts = verdicts
        self.answered.set()

    @property
    def size(self) -> int:
        """At least the bytes of the transaction in a request, but for names that are not ASCII."""
        topics = self.transaction.topics
        names = len(self.transaction.transactional_id) + sum(len(topic.name) for topic in topics)
        return names + (len(topics) + 1) * _FRAME_BYTES + len(self.partitions) * _NUMBER_BYTES


class TransactionVerifier:
    """See the module's docstring. `run` must run.

    `retry_ms` returns how long, and after which pauses, an addition is tried again while the producer's previous
    transaction is being completed.
    """

    def __init__(
        self,
        local_id: int,
        topic: str,
        image: Callable[[], MetadataImage],
        coordinator: TransactionCoordinator,
        connections: BrokerConnections,
        commit: Callable[[], None],
        retry_ms: Callable[[], tuple[int, int]],
    ) -> None:
        self._local_id = local_id
        self._topic = topic
        self._image = image
        self._coordinator = coordinator
        self._connections = connections
        self._commit = commit
        self._retry_ms = retry_ms
        self._questions: dict[int, list[_Verification]] = {}
        self._tasks = BackgroundTasks()

    async def run(self) -> None:
        """Send requests to other brokers, until cancelled."""
        await self._tasks.run()

    async def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: tuple[TopicPartition, ...],
        support: ClientSupport,
    ) -> Verdicts:
        """The error codes of those partitions that the producer must not write to, as its client expects them."""
        verdicts = await self._ask(transactional_id, producer, partitions, support)
        if support is ClientSupport.ADDS_PARTITIONS:
            longest_ms, pause_ms = self._retry_ms()
            until = trio.current_time() + longest_ms / 1000
            while ErrorCode.CONCURRENT_TRANSACTIONS in verdicts.values() and trio.current_time() < until:
                await trio.sleep(pause_ms / 1000)
                verdicts = await self._ask(transactional_id, producer, partitions, support)
        return {place: _for_client(code, support) for place, code in verdicts.items() if code is not ErrorCode.NONE}

    async def _ask(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: tuple[TopicPartition, ...],
        support: ClientSupport,
    ) -> Verdicts:
        index = self._coordinator.runtime.partition_for(transactional_id)
        topic = self._image().topics.by_name.get(self._topic)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None or partition.leader < 0:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        adds = support is ClientSupport.ADDS_PARTITIONS
        if partition.leader == self._local_id:
            return await self._ask_here(transactional_id, producer, partitions, adds=adds)
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=not adds,
            topics=topics_of(partitions),
        )
        question = _Verification(asked, partitions)
        self._queue(partition.leader, question)
        await question.answered.wait()
        return question.verdicts

    def _queue(self, broker_id: int, question: _Verification) -> None:
        queue = self._questions.get(broker_id)
        if queue is None:
            self._questions[broker_id] = [question]
            self._tasks.start_soon(self._send, broker_id)
        else:
            queue.append(question)

    async def _send(self, broker_id: int) -> None:
        """Sends all questions to a broker, until none is left."""
        while self._questions[broker_id]:
            sent, self._questions[broker_id] = split_verifications(self._questions[broker_id])
            request = AddPartitionsToTxnRequest(transactions=[each.transaction for each in sent])
            try:
                response = await self._connections.call(broker_id, request, _VERSION)
            except ConnectionLost:
                for each in sent:
                    each.answer(dict.fromkeys(each.partitions, ErrorCode.NETWORK_EXCEPTION))
            else:
                for each in sent:
                    each.answer(_verdicts(response, each))
        del self._questions[broker_id]

    async def _ask_here(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: tuple[TopicPartition, ...],
        *,
        adds: bool,
    ) -> Verdicts:
        if adds:
            added = self._coordinator.add_partitions(transactional_id, producer, partitions, EPOCH_PER_TRANSACTION)
            self._commit()
            error = await added.wait()
            code = error.code if isinstance(error, KafkaError) else ErrorCode.NONE
            return dict.fromkeys(partitions, code)
        verified = self._coordinator.verify_partitions(transactional_id, producer, partitions)
        outcome = await verified.wait()
        if isinstance(outcome, KafkaError):
            return dict.fromkeys(partitions, outcome.code)
        return dict(zip(partitions, outcome, strict=True))


def topics_of(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    """The partitions by topic, as a request has them."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()]


def split_verifications(questions: list[_Verification]) -> tuple[list[_Verification], list[_Verification]]:
    """The questions of the next request, at least one, and the others. A request has a transactional id once."""
    sent: dict[str, _Verification] = {}
    left: list[_Verification] = []
    size = 0
    for each in questions:
        size += each.size
        name = each.transaction.transactional_id
        if sent and (name in sent or size > _REQUEST_BYTES_MAX):
            left.append(each)
        else:
            sent[name] = each
    return list(sent.values()), left


def _verdicts(response: AddPartitionsToTxnResponse, question: _Verification) -> Verdicts:
    partitions = question.partitions
    if response.error_code:
        code = ErrorCode.of(response.error_code)
        # Its client is not the one that lacks an authorization.
        return dict.fromkeys(
            partitions, ErrorCode.INVALID_TXN_STATE if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code
        )
    found = {
        (topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
        for result in response.results_by_transaction
        if result.transactional_id == question.transaction.transactional_id
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    return {place: found.get(place, ErrorCode.UNKNOWN_SERVER_ERROR) for place in partitions}


def _for_client(code: ErrorCode, support: ClientSupport) -> ErrorCode:
    """The error that the client knows how to handle (ReplicaManager.handleProduceAppend)."""
    if code in _RETRIABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not ClientSupport.ADDS_PARTITIONS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.NONE:
        return ErrorCode.INVALID_TXN_STATE
    return code
