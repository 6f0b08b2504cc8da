"""Transactions that hang: a partition has them open, but their coordinator will never end them (KIP-664)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.client.admin.routing import Deadline
from broker.client.admin.transactions import ProducerDescription, TransactionCalls
from broker.client.brokers import Broker
from broker.client.results import Outcomes, outcome_of
from broker.client.types import NodeId, TopicPartition
from broker.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.errors import ErrorCode, KafkaError

# The default of transaction.max.timeout.ms: no transaction that its coordinator knows is open for longer.
MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
# Partitions that one round of requests asks about, as in Kafka's tool.
_PARTITIONS_MAX: Final = 500


class HangingTransaction(NamedTuple):
    """A transaction of a partition that no coordinator will end, and its producer as the partition knows it."""

    partition: TopicPartition
    producer: ProducerDescription


class HangingTransactionCalls(TransactionCalls):
    """Calls that find and abort hanging transactions."""

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: NodeId | None = None,
        max_transaction_timeout_ms: float = MAX_TRANSACTION_TIMEOUT_MS,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Finds transactions that are open in these partitions and that no coordinator will end.

        Only transactions whose last record is older than `max_transaction_timeout_ms` are considered; it should not be
        less than the brokers' `transaction.max.timeout.ms`. The leaders are asked, or the replicas on `broker_id`.
        `abort_transaction` ends what was found. Raises ClientError, KafkaError.
        """
        wanted = list(dict.fromkeys(partitions))
        candidates: list[HangingTransaction] = []
        for first in range(0, len(wanted), _PARTITIONS_MAX):
            described = await self.describe_producers(
                wanted[first : first + _PARTITIONS_MAX], broker_id=broker_id, timeout_ms=timeout_ms
            )
            oldest_ms = self._cluster.environment.now_ms() - max_transaction_timeout_ms
            candidates += [
                HangingTransaction(partition, producer)
                for partition, producers in described.raise_first().items()
                for producer in producers
                if producer.transaction_start_offset is not None and producer.last_timestamp_ms < oldest_ms
            ]
        coordinated = await self._coordinated([each.producer.producer_id for each in candidates], timeout_ms)
        return [each for each in candidates if each.partition not in coordinated.get(each.producer.producer_id, ())]

    async def _coordinated(
        self, producer_ids: Iterable[int], timeout_ms: float | None
    ) -> Mapping[int, Sequence[TopicPartition]]:
        """The partitions whose transactions a coordinator knows and will end, by producer id."""
        wanted = list(dict.fromkeys(producer_ids))
        if not wanted:
            return {}
        listed = await self.list_transactions(producer_ids=wanted, timeout_ms=timeout_ms)
        ids = {each.transactional_id: each.producer_id for found in listed.raise_first().values() for each in found}
        described = await self.describe_transactions(ids, timeout_ms=timeout_ms)
        known: dict[int, Sequence[TopicPartition]] = {}
        for transactional_id, error in described.failed.items():
            if not (isinstance(error, KafkaError) and error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                raise error
            known[ids[transactional_id]] = ()
        return known | {ids[each.transactional_id]: each.partitions for each in described.succeeded.values()}

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout_ms: float | None = None,
    ) -> None:
        """Aborts a transaction in one partition by a marker, without its coordinator.

        This is for hanging transactions only: one that is still under way loses its atomicity. `describe_producers`
        has the epochs; a coordinator epoch of -1 is sent as 0. Raises ClientError, and KafkaError with
        INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if the partition knows a later epoch.
        """
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=max(coordinator_epoch, 0),
        )

        async def ask(
            broker: Broker, pending: Sequence[TopicPartition], deadline: Deadline
        ) -> Outcomes[TopicPartition, None]:
            response: WriteTxnMarkersResponse = await broker.call(WriteTxnMarkersRequest(markers=[marker]))
            return {
                TopicPartition(topic.name, each.partition_index): outcome_of(each.error_code, None, None)
                for written in response.markers
                for topic in written.topics
                for each in topic.partitions
            }

        (await self._by_leader([partition], ask, timeout_ms)).raise_first()
