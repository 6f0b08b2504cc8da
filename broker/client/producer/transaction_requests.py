"""The requests of a transactional producer to its coordinator, and to those of groups. Each is retried until answered.

A request whose response is lost is sent again: coordinators recognize a repeated one by the producer's epoch. One
request is under way at a time, so that none reaches the coordinator after the EndTxn that follows it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Final, TypeVar

import trio

from broker.client.backoff import Backoff
from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.errors import ConnectionLost, KafkaError, TimedOut, UnsupportedByBroker, check, is_stale_coordinator
from broker.client.find_coordinators import GROUP, TRANSACTION
from broker.client.producer.config import ProducerConfig
from broker.client.producer.sequences import Identity, ProducerIdentity
from broker.client.producer.transaction_state import PreparedTransaction, ProducerTransaction, Request
from broker.client.transaction_versions import end_versions, has_version_2
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

# The first version of transaction.version 2. AddPartitionsToTxn is for brokers from version 4 on.
_COMMIT_OFFSETS_V2: Final = 5
# TxnOffsetCommit gives topics by their ids from this version on (KIP-1319).
_COMMIT_BY_ID_SINCE: Final = 6
_ADD_PARTITIONS_MAX: Final = 3
# InitProducerId can raise the epoch from this version on (KIP-360), and keep prepared transactions (KIP-939).
_BUMPS_SINCE: Final = 3
_PREPARED_SINCE: Final = 6
# Prepared transactions have no timeout.
_NO_TIMEOUT_MS: Final = 2**31 - 1
# TxnOffsetCommit says which member of the group commits from this version on (KIP-447).
_MEMBERS_SINCE: Final = 3
# After the answer to EndTxn, the coordinator writes the markers of the transaction, mostly within a few milliseconds.
# Until then it refuses the next one. The pause doubles up to retry.backoff.ms; Kafka's client always waits 20 ms.
_CONCURRENT_PAUSE_MS: Final = 2.0
_NO_LEADER_EPOCH: Final = -1

_T = TypeVar("_T")


class TransactionRequests:
    """See the module's docstring."""

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, identity: ProducerIdentity, transaction: ProducerTransaction
    ) -> None:
        self.transaction = transaction
        self._cluster = cluster
        self._config = config
        self._identity = identity
        self._requesting = trio.Lock()
        self._is_adding = False
        self._concurrent_pause = Backoff(
            min(_CONCURRENT_PAUSE_MS, config.retry_backoff_ms), config.retry_backoff_ms, cluster.environment.rng
        )

    @property
    def identity(self) -> Identity:
        """The producer id and epoch of the present transaction."""
        return self._identity.current

    async def initialize(self, *, keep_prepared: bool) -> None:
        """Gets the producer id. Aborts what an earlier producer of the transactional id has left open, or keeps it.

        Raises TimedOut after `max.block.ms`, KafkaError, UnsupportedByBroker.
        """
        deadline = trio.current_time() + self._config.max_block_ms / 1000
        async with self._turn(deadline):
            request = self._initialization()
            request.keep_prepared_txn = keep_prepared
            is_v2, kept = await self._init_producer_id(request, deadline)
            self.transaction.initialized(is_v2=is_v2, kept=kept)

    def _initialization(self) -> InitProducerIdRequest:
        is_two_phase = self._config.transaction_two_phase_commit_enable
        return InitProducerIdRequest(
            transactional_id=self.transaction.transactional_id,
            transaction_timeout_ms=_NO_TIMEOUT_MS if is_two_phase else self._config.transaction_timeout_ms,
            enable2_pc=is_two_phase,
        )

    def add_partitions_soon(self, on_added: Callable[[], None]) -> None:
        """Begins to add the partitions that batches wait for, under transaction.version 0 and 1."""

        async def add() -> None:
            await self._add_partitions()
            self._is_adding = False
            on_added()

        if not self._is_adding and self.transaction.partitions_to_add():
            self._is_adding = True
            self._cluster.nursery.start_soon(add)

    async def _add_partitions(self) -> None:
        """Adds partitions; errors are the transaction's."""
        async with self._requesting:
            if not (partitions := self.transaction.partitions_to_add()):
                return
            identity = self._identity.current
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transaction.transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=_topics_to_add(partitions),
            )

            async def ask(broker: Broker) -> None:
                _check_added(await broker.call(request, highest=_ADD_PARTITIONS_MAX))

            try:
                await self._ask_coordinator(ask)
            except KafkaError as error:
                self.transaction.refuse(error, Request.ADD_PARTITIONS)
            except UnsupportedByBroker as error:
                self.transaction.fail(error)
            else:
                self.transaction.added(partitions)

    async def commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Adds a group's offsets to the transaction. Raises TimedOut after `max.block.ms` in all, KafkaError."""
        is_v2 = self.transaction.is_v2
        deadline = trio.current_time() + self._config.max_block_ms / 1000
        async with self._turn(deadline):
            identity = self._identity.current
            if is_v2:
                self.transaction.is_started = True
            else:
                await self._add_offsets(group.group_id, deadline)
            request = TxnOffsetCommitRequest(
                transactional_id=self.transaction.transactional_id,
                group_id=group.group_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                generation_id_or_member_epoch=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.group_instance_id,
            )
            try:
                commit = partial(self._commit_offsets, request, offsets, is_v2)
                await self._ask(group.group_id, GROUP, commit, deadline)
            except KafkaError as error:
                self.transaction.refuse(error, Request.COMMIT_OFFSETS)
                raise

    @asynccontextmanager
    async def _turn(self, deadline: float) -> AsyncIterator[None]:
        """Waits for the request that is under way, and keeps others back. Raises TimedOut at `deadline`."""
        with trio.move_on_at(deadline) as waiting:
            await self._requesting.acquire()
        if waiting.cancelled_caught:
            raise TimedOut(
                f"another request of the transaction was not answered within {self._config.max_block_ms:g} ms "
                "(max.block.ms)"
            )
        try:
            yield
        finally:
            self._requesting.release()

    async def _commit_offsets(
        self,
        request: TxnOffsetCommitRequest,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        is_v2: bool,
        broker: Broker,
    ) -> None:
        """Sends the request with the topics' ids where broker and client know these, else with their names."""
        ids = self._topic_ids(offsets)
        lowest, highest = _MEMBERS_SINCE if request.member_id else 0, _COMMIT_OFFSETS_V2 - 1
        if is_v2:
            lowest, highest = _COMMIT_OFFSETS_V2, _COMMIT_BY_ID_SINCE if ids else _COMMIT_BY_ID_SINCE - 1
        version = broker.version_of(TxnOffsetCommitRequest, lowest=lowest, highest=highest)
        request.topics = _topics_to_commit(offsets, ids if version >= _COMMIT_BY_ID_SINCE else {})
        names = {topic_id: name for name, topic_id in ids.items()}
        _check_committed(await broker.call(request, version=version), names)

    def _topic_ids(self, offsets: Iterable[TopicPartition]) -> dict[str, bytes]:
        """The ids of the topics; empty unless the client knows all of them, which are then given by name."""
        topics = {each.topic: self._cluster.metadata.topic(each.topic) for each in offsets}
        ids = {name: topic.id for name, topic in topics.items() if topic is not None and topic.id != ZERO_UUID}
        return ids if len(ids) == len(topics) else {}

    async def end(self, *, is_commit: bool) -> None:
        """Commits or aborts the transaction, if the coordinator knows of it. Errors are the transaction's."""
        async with self._requesting:
            try:
                if self.transaction.is_started:
                    await self._end(is_commit=is_commit)
                if self.transaction.must_bump_epoch:
                    await self._bump_epoch()
            except KafkaError as error:
                self.transaction.refuse(error, Request.COMMIT if is_commit else Request.ABORT)
            except UnsupportedByBroker as error:
                self.transaction.fail(error)
            else:
                self.transaction.ended()

    async def _end(self, *, is_commit: bool) -> None:
        identity, transaction = self._identity.current, self.transaction
        request = EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        lowest, highest = end_versions(is_v2=transaction.is_v2)

        async def ask(broker: Broker) -> None:
            response: EndTxnResponse = await broker.call(request, lowest=lowest, highest=highest)
            check(response.error_code)
            if response.producer_id >= 0:
                self._identity.assigned(response.producer_id, response.producer_epoch)
            transaction.negotiate(is_v2=has_version_2(broker))

        await self._ask_coordinator(ask)

    async def _bump_epoch(self) -> None:
        """Raises the epoch after a transaction that failed, so that its delayed requests are refused (KIP-360)."""
        request = self._initialization()
        request.producer_id, request.producer_epoch = self._identity.current
        await self._init_producer_id(request)

    async def _init_producer_id(
        self, request: InitProducerIdRequest, deadline: float = inf
    ) -> tuple[bool, PreparedTransaction | None]:
        """Takes the producer id and epoch. Returns if the coordinator has transaction.version 2, and what it kept."""
        lowest = _BUMPS_SINCE if request.producer_id >= 0 else 0
        if request.enable2_pc or request.keep_prepared_txn:
            lowest = _PREPARED_SINCE

        async def ask(broker: Broker) -> tuple[bool, PreparedTransaction | None]:
            response: InitProducerIdResponse = await broker.call(request, lowest=lowest)
            check(response.error_code)
            self._identity.assigned(response.producer_id, response.producer_epoch)
            kept = PreparedTransaction(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            return has_version_2(broker), kept if kept.producer_id >= 0 else None

        return await self._ask_coordinator(ask, deadline)

    async def _add_offsets(self, group_id: str, deadline: float) -> None:
        identity = self._identity.current
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transaction.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )

        async def ask(broker: Broker) -> None:
            response: AddOffsetsToTxnResponse = await broker.call(request)
            check(response.error_code)

        try:
            await self._ask_coordinator(ask, deadline)
        except KafkaError as error:
            self.transaction.refuse(error, Request.ADD_OFFSETS)
            raise
        self.transaction.is_started = True

    async def _ask_coordinator(self, ask: Callable[[Broker], Awaitable[_T]], deadline: float = inf) -> _T:
        return await self._ask(self.transaction.transactional_id, TRANSACTION, ask, deadline)

    async def _ask(self, key: str, key_type: int, ask: Callable[[Broker], Awaitable[_T]], deadline: float) -> _T:
        """Asks the coordinator until a response is final, or `deadline`, a time of Trio's clock: raises TimedOut.

        If the coordinator has moved, looks it up again.
        """
        concurrent = 0

        async def attempt() -> _T:
            nonlocal concurrent
            while True:
                broker = await self._cluster.coordinator(key, key_type)
                try:
                    return await ask(broker)
                except ConnectionLost:
                    self._cluster.forget_coordinator(key, key_type)
                    raise
                except KafkaError as error:
                    if is_stale_coordinator(error.code) or error.code == ErrorCode.REQUEST_TIMED_OUT:
                        self._cluster.forget_coordinator(key, key_type)
                    if error.code != ErrorCode.CONCURRENT_TRANSACTIONS:
                        raise
                concurrent += 1
                await trio.sleep(self._concurrent_pause.pause_s(concurrent))

        timeout_ms = max(0.0, (deadline - trio.current_time()) * 1000)
        return await self._cluster.retried(attempt, timeout_ms=timeout_ms)


def _check_added(response: AddPartitionsToTxnResponse) -> None:
    """Raises KafkaError unless all partitions were added."""
    results = [
        (result.partition_error_code, f"{topic.name}-{result.partition_index}")
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    # Partitions that were not attempted say less than the one because of which they were not.
    for code, partition in sorted(results, key=lambda each: each[0] == ErrorCode.OPERATION_NOT_ATTEMPTED):
        check(code, partition)


def _topics_to_add(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, partition in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(partition)
    return list(topics.values())


def _check_committed(response: TxnOffsetCommitResponse, names: Mapping[bytes, str]) -> None:
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            check(partition.error_code, f"offset of {name}-{partition.partition_index}")


def _topics_to_commit(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, bytes]
) -> list[TxnOffsetCommitRequestTopic]:
    """The topics of a request, by `ids` if there are any, else by name."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, partition), committed in offsets.items():
        if name not in topics:
            topic_id = ids.get(name)
            topics[name] = (
                TxnOffsetCommitRequestTopic(name=name)
                if topic_id is None
                else TxnOffsetCommitRequestTopic(topic_id=topic_id)
            )
        topics[name].partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=_NO_LEADER_EPOCH if committed.leader_epoch is None else committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return list(topics.values())


def transaction_requests(
    cluster: Cluster, config: ProducerConfig, identity: ProducerIdentity | None, on_change: Callable[[], None]
) -> TransactionRequests | None:
    """The requests of a producer with a transactional id; None for others. `on_change` is called after changes."""
    if config.transactional_id is None or identity is None:
        return None
    return TransactionRequests(cluster, config, identity, ProducerTransaction(config.transactional_id, on_change))
