"""Producers of partitions, and transactions: described and listed (KIP-664), their producers fenced (KIP-360)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from broker.client.admin.routing import Deadline, Routing, by_topic, is_retried_by_controller
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.find_coordinators import TRANSACTION
from broker.client.producer.transaction_state import PreparedTransaction
from broker.client.results import Outcomes, Results, outcome_of
from broker.client.transaction_versions import end_versions, has_version_2
from broker.client.types import Int16, Int32, NodeId, TopicPartition
from broker.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from broker.wire.api.describe_producers import ProducerState as WireProducerState
from broker.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from broker.wire.api.describe_transactions import TransactionState as WireTransactionState
from broker.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from broker.wire.errors import ErrorCode, KafkaError

_NONE: Final = -1
# ListTransactions filters by duration (KIP-994), and by transactional id (KIP-1152), from these versions on.
_DURATION_SINCE: Final = 1
_PATTERN_SINCE: Final = 2


class ProducerDescription(NamedTuple):
    """A producer that a partition knows. `transaction_start_offset` is None unless a transaction is open there."""

    producer_id: int
    epoch: Int16
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: Int32
    transaction_start_offset: int | None


@attrs.frozen
class TransactionDescription:
    """`start_ms` is when the last transaction began, None if none has begun since the producer was initialized.

    `partitions` are those of the open transaction.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int


class TransactionListing(NamedTuple):
    """One transactional id that a broker coordinates."""

    transactional_id: str
    producer_id: int
    state: str


class ProducerEpoch(NamedTuple):
    """The producer id and epoch that a transactional id was given."""

    producer_id: int
    epoch: Int16


class TransactionCalls(Routing):
    """Calls on producers and transactions."""

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: NodeId | None = None,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, list[ProducerDescription]]:
        """Describes the producers that the leaders of partitions know, or the replicas on the broker `broker_id`."""

        async def ask(
            broker: Broker, pending: Sequence[TopicPartition], deadline: Deadline
        ) -> Outcomes[TopicPartition, list[ProducerDescription]]:
            topics = [
                TopicRequest(name=topic, partition_indexes=[each.partition for each in of_topic])
                for topic, of_topic in by_topic(pending).items()
            ]
            response: DescribeProducersResponse = await broker.call(DescribeProducersRequest(topics=topics))
            return {
                TopicPartition(topic.name, each.partition_index): outcome_of(
                    each.error_code, each.error_message, [_producer(state) for state in each.active_producers]
                )
                for topic in response.topics
                for each in topic.partitions
            }

        if broker_id is None:
            return await self._by_leader(partitions, ask, timeout_ms)
        return await self._by_node(partitions, lambda _: broker_id, ask, timeout_ms, is_retried_by_controller)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, TransactionDescription]:
        """Describes the transactions of transactional ids."""

        async def ask(
            broker: Broker, pending: Sequence[str], deadline: Deadline
        ) -> Outcomes[str, TransactionDescription]:
            request = DescribeTransactionsRequest(transactional_ids=list(pending))
            response: DescribeTransactionsResponse = await broker.call(request)
            return {
                state.transactional_id: outcome_of(state.error_code, None, _transaction(state, broker.node.id))
                for state in response.transaction_states
            }

        return await self._by_coordinator(transactional_ids, ask, timeout_ms, TRANSACTION)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> Results[int, list[TransactionListing]]:
        """Lists the transactions that each broker coordinates; `.chained()` of the results is all of them.

        A transaction is listed if it has one of the `states` ("Ongoing", ...) and one of the `producer_ids`, began
        longer than `open_for_ms` ago, and its id matches the pattern, a regular expression of RE2. A filter that is not
        given selects all transactions. `open_for_ms` selects ended transactions too, and ids that have had none.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=_NONE if open_for_ms is None else open_for_ms,
            transactional_id_pattern=transactional_id_pattern,
        )
        lowest = _DURATION_SINCE if open_for_ms is not None else 0
        lowest = _PATTERN_SINCE if transactional_id_pattern is not None else lowest

        async def ask(broker: Broker, deadline: Deadline) -> list[TransactionListing]:
            response: ListTransactionsResponse = await broker.call(request, lowest=lowest)
            check(response.error_code)
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"The broker does not know the state {unknown}.")
            return [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
                for each in response.transaction_states
            ]

        return await self._by_broker(None, ask, timeout_ms)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, ProducerEpoch]:
        """Fences the producers that use transactional ids: each id gets a new epoch, and an open transaction ends."""

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, ProducerEpoch]:
            outcomes: Outcomes[str, ProducerEpoch] = {}
            for transactional_id in pending:
                request = InitProducerIdRequest(
                    transactional_id=transactional_id, transaction_timeout_ms=deadline.request_timeout_ms
                )
                response: InitProducerIdResponse = await broker.call(request)
                given = ProducerEpoch(response.producer_id, response.producer_epoch)
                outcomes[transactional_id] = outcome_of(response.error_code, None, given)
            return outcomes

        return await self._by_coordinator(transactional_ids, ask, timeout_ms, TRANSACTION)

    async def end_transactions(
        self,
        transactions: Mapping[str, PreparedTransaction],
        *,
        is_commit: bool,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Commits or aborts prepared transactions of producers that may be gone, by their transactional ids.

        A transaction that was ended in the same way before succeeds again, while its producer has not begun another
        one. The outcome is KafkaError with PRODUCER_FENCED, INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE where it was
        ended otherwise: by its producer, by a producer that took its id over, or after `transaction.timeout.ms`.
        """

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, None]:
            lowest, highest = end_versions(is_v2=has_version_2(broker))
            outcomes: Outcomes[str, None] = {}
            for transactional_id in pending:
                producer_id, epoch = transactions[transactional_id]
                request = EndTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    committed=is_commit,
                )
                response: EndTxnResponse = await broker.call(request, lowest=lowest, highest=highest)
                outcomes[transactional_id] = outcome_of(response.error_code, None, None)
            return outcomes

        return await self._by_coordinator(transactions, ask, timeout_ms, TRANSACTION)


def _producer(state: WireProducerState) -> ProducerDescription:
    start = state.current_txn_start_offset
    return ProducerDescription(
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start_offset=None if start == _NONE else start,
    )


def _transaction(state: WireTransactionState, coordinator_id: int) -> TransactionDescription:
    start_ms = state.transaction_start_time_ms
    return TransactionDescription(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=None if start_ms == _NONE else start_ms,
        partitions=tuple(
            TopicPartition(each.topic, partition) for each in state.topics for partition in each.partitions
        ),
        coordinator_id=coordinator_id,
    )
