"""Consume-transform-produce: records that are consumed, their outputs and the group's offsets are one transaction."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio

from broker.client import ClientError, ConnectionLost, Consumer, ConsumerRecord, KafkaError, TopicPartition
from broker.client.consumer.group import RebalanceListener
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from jepsen.values import GroupOffsets, Transaction, transformed
from jepsen.workloads.client import Client
from jepsen.workloads.group_member import REBALANCE_MS, SESSION_MS
from jepsen.workloads.transactional_producer import ProducerOver, Transactions, open_producer

_POLL_SECONDS: Final = 0.5
_POLL_RECORDS_MAX: Final = 20
_HEARTBEAT_MS: Final = 1_500
_REQUEST_TIMEOUT_MS: Final = 3_000
_API_TIMEOUT_MS: Final = 10_000
_ENDS: Final = 0.02
_BETWEEN_SECONDS: Final = 2.0
_FETCH_VERSION: Final = 8


async def transform(
    client: Client,
    transactional_id: str,
    group: str,
    protocol: str,
    topics: Sequence[str],
    output: Sequence[tuple[str, int]],
    *,
    has_pauses: bool = True,
) -> None:
    """Consume `topics` as a member of `group`, and write an output for each record, until cancelled.

    A member that fails or leaves is followed by another one with the same transactional id. With `has_pauses`, it may
    pause in a transaction until the coordinator aborts it.
    """
    serial = 0
    while True:
        serial += 1
        try:
            async with (
                open_producer(client, transactional_id) as producer,
                _consumer(client, group, protocol) as consumer,
            ):
                await producer.init_transactions()
                transactions = Transactions(client, producer, transactional_id, serial, has_pauses=has_pauses)
                await _Transformer(transactions, consumer, group, output).run(topics)
        except (ProducerOver, KafkaError, ClientError):
            pass
        await client.pause(1 / _BETWEEN_SECONDS)


def _consumer(client: Client, group: str, protocol: str) -> Consumer:
    return Consumer(
        client.bootstrap_servers,
        config=client.configs,
        client_id=client.name,
        environment=client.environment,
        group_id=group,
        group_protocol=protocol,
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        max_poll_interval_ms=REBALANCE_MS,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        default_api_timeout_ms=_API_TIMEOUT_MS,
        metadata_max_age_ms=10_000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


class _Transformer(RebalanceListener):
    """One member of the group with its producer."""

    def __init__(
        self, transactions: Transactions, consumer: Consumer, group: str, output: Sequence[tuple[str, int]]
    ) -> None:
        self._transactions = transactions
        self._consumer = consumer
        self._group = group
        self._output = output
        self._assigned: set[TopicPartition] = set()

    async def run(self, topics: Sequence[str]) -> None:
        """Run until it makes room for another one. Raises ProducerOver, KafkaError, ClientError."""
        self._consumer.subscribe(topics, listener=self)
        rng = self._transactions.client.rng
        while rng.random() >= _ENDS:
            records = await self._consumer.fetch(_POLL_RECORDS_MAX, timeout_s=_POLL_SECONDS)
            self._assigned.clear()
            if records and not await self._transactions.run(self._planned(records), self._consumer.group_metadata()):
                self._rewind(records)

    def _planned(self, records: Sequence[ConsumerRecord]) -> Transaction:
        name = self._transactions.next_name()
        outputs: dict[tuple[str, int], tuple[str, ...]] = {}
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            value = (record.value or b"").decode()
            target = self._output[record.offset % len(self._output)]
            outputs[target] = (*outputs.get(target, ()), transformed(name, self._group, value))
            offsets[record.topic, record.partition] = record.offset + 1
        return Transaction(
            self._transactions.transactional_id,
            name,
            tuple((topic, index, values) for (topic, index), values in outputs.items()),
            self._group,
            tuple((topic, index, offset) for (topic, index), offset in offsets.items()),
        )

    def _rewind(self, records: Sequence[ConsumerRecord]) -> None:
        """Consume the records of an aborted transaction again.

        A partition that was assigned again meanwhile is at its committed offset: another member may have consumed it.
        """
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for partition, offset in first.items():
            if partition in self._consumer.assignment() and partition not in self._assigned:
                self._consumer.seek(partition, offset)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned.update(partitions)
        await trio.lowlevel.checkpoint()


async def committed_offsets(
    client: Client, group: str, partitions: Sequence[tuple[str, int]]
) -> Mapping[tuple[str, int], int]:
    """The offsets that a group has committed, 0 where there is none. Waits for pending transactions (KIP-447)."""
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for topic, index in partitions:
        topics.setdefault(topic, OffsetFetchRequestTopics(name=topic)).partition_indexes.append(index)
    asked = OffsetFetchRequestGroup(group_id=group, topics=list(topics.values()))
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    while True:
        try:
            await client.seek_coordinator(group)
            async with client.connected() as connection:
                response = await connection.call(request, _FETCH_VERSION)
        except ConnectionLost:
            await client.back_off()
            continue
        (told,) = response.groups
        codes = [told.error_code, *(each.error_code for topic in told.topics for each in topic.partitions)]
        if not any(codes):
            return {
                (topic.name, each.partition_index): max(0, each.committed_offset)
                for topic in told.topics
                for each in topic.partitions
            }
        await client.back_off()


async def wait_transformed(client: Client, group: str, ends: Mapping[tuple[str, int], int]) -> None:
    """Wait until a group has committed the ends of its partitions, and record its offsets as `final-offsets`."""
    partitions = tuple(sorted(ends))
    while True:
        committed = await committed_offsets(client, group, partitions)
        if all(committed.get(partition, 0) >= end for partition, end in ends.items()):
            break
        await trio.sleep(0.2)
    operation = client.history.invoke(client.name, "final-offsets", GroupOffsets(group, partitions))
    client.history.ok(operation, tuple((*partition, committed[partition]) for partition in partitions))
