"""Transactions that mix polls and sends, by clients that assign partitions to themselves or subscribe with a group.

After an abort, a client goes back to where the transaction began, and polls the same records again. A rebalance during
a poll ends the transaction: the client aborts it.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from broker.client import ClientError, Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from broker.client.consumer.group import RebalanceListener
from jepsen.values import Transaction, TransactionPoll
from jepsen.workloads.bank import by_partition
from jepsen.workloads.client import Client
from jepsen.workloads.group_member import REBALANCE_MS, SESSION_MS
from jepsen.workloads.transactional_producer import ProducerOver, Sendings, Transactions, open_producer

_STEPS_MAX: Final = 4
_POLL_SECONDS: Final = (0.1, 0.5)
# Few records, so that a transaction polls a partition several times, or many, so that the client gets to the end.
_POLL_RECORDS_MAX: Final = (2, 50)
# The chance that a client waits for its records before the next step, so that a wrong broker could return them.
_FLUSHES: Final = 0.5
_HEARTBEAT_MS: Final = 1_500
_REQUEST_TIMEOUT_MS: Final = 3_000
_FETCH_WAIT_MS: Final = 1_000
_API_TIMEOUT_MS: Final = 10_000
# The chance per transaction that a client makes room for another one.
_ENDS: Final = 0.03
_BETWEEN_SECONDS: Final = 2.0


@attrs.frozen
class Subscription:
    """The group of a client that subscribes, and its protocol."""

    group: str
    protocol: str


async def mix_polls_and_sends(
    client: Client,
    transactional_id: str,
    partitions: Sequence[tuple[str, int]],
    per_second: float,
    subscription: Subscription | None = None,
) -> None:
    """Read from and write to the partitions of a topic until cancelled, with one consumer and producer after the other.

    Without a subscription, the client assigns itself all partitions. It then continues after its last transaction that
    was certainly committed, and commits no offsets.
    """
    committed = dict.fromkeys((TopicPartition(*partition) for partition in partitions), 0)
    serial = 0
    while True:
        serial += 1
        try:
            async with (
                open_producer(client, transactional_id) as producer,
                _consumer(client, subscription) as consumer,
            ):
                await producer.init_transactions()
                transactions = Transactions(client, producer, transactional_id, serial)
                mixer = _Mixer(transactions, consumer, partitions, subscription, committed)
                await mixer.run(per_second)
        except (ProducerOver, KafkaError, ClientError):
            pass
        await client.pause(1 / _BETWEEN_SECONDS)


def _consumer(client: Client, subscription: Subscription | None) -> Consumer:
    return Consumer(
        client.bootstrap_servers,
        config=client.configs,
        client_id=client.name,
        environment=client.environment,
        group_id=None if subscription is None else subscription.group,
        group_protocol="classic" if subscription is None else subscription.protocol,
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        max_poll_interval_ms=REBALANCE_MS,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        fetch_max_wait_ms=_FETCH_WAIT_MS,
        default_api_timeout_ms=_API_TIMEOUT_MS,
        metadata_max_age_ms=10_000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


class _Mixer(RebalanceListener):
    """One producer with its consumer. `committed` are the positions of a client without a subscription after its last
    committed transaction.
    """

    def __init__(
        self,
        transactions: Transactions,
        consumer: Consumer,
        partitions: Sequence[tuple[str, int]],
        subscription: Subscription | None,
        committed: dict[TopicPartition, int],
    ) -> None:
        self._transactions = transactions
        self._consumer = consumer
        self._partitions = partitions
        self._subscription = subscription
        self._committed = committed
        # The positions after the polls; partitions without a poll since their assignment are absent.
        self._positions: dict[TopicPartition, int] = {}
        # Where the present transaction began, for partitions that it has polled and that were not assigned meanwhile.
        self._beginnings: dict[TopicPartition, int] = {}
        self._is_rebalanced = False

    async def run(self, per_second: float) -> None:
        """Run until it makes room for another one. Raises ProducerOver, KafkaError, ClientError."""
        self._begin()
        client = self._transactions.client
        while client.rng.random() >= _ENDS:
            await client.pause(per_second)
            if await self._transact():
                self._committed.update(self._positions)
            else:
                self._go_back()
            self._beginnings.clear()

    def _begin(self) -> None:
        if self._subscription is None:
            self._consumer.assign(self._committed)
            for partition, offset in self._committed.items():
                self._consumer.seek(partition, offset)
            self._positions.update(self._committed)
        else:
            self._consumer.subscribe(dict.fromkeys(topic for topic, _ in self._partitions), listener=self)

    async def _transact(self) -> bool:
        """One transaction of polls and sends. Returns True if it is committed. Raises ProducerOver."""
        rng, name = self._transactions.client.rng, self._transactions.next_name()
        # A poll is None, a send is a record. Each transaction polls at least once, as a member of a group has to.
        steps: list[tuple[str, int, str] | None] = [None]
        for number in range(rng.randint(1, _STEPS_MAX - 1)):
            topic, index = rng.choice(self._partitions)
            steps.append(rng.choice((None, (topic, index, f"{name}/{topic}-{index}/{number}"))))
        rng.shuffle(steps)
        records = tuple((topic, index, (value,)) for topic, index, value in filter(None, steps))

        async def work(sendings: Sendings) -> bool:
            for step in steps:
                if step is not None:
                    await self._send(step, sendings)
                elif not await self._poll(name):
                    return False
            await self._send_offsets()
            return True

        return await self._transactions.perform(Transaction(self._transactions.transactional_id, name, records), work)

    async def _send(self, record: tuple[str, int, str], sendings: Sendings) -> None:
        sendings.send(*record)
        if self._transactions.client.rng.random() < _FLUSHES:
            await self._transactions.producer.flush()

    async def _poll(self, transaction: str) -> bool:
        """One poll. Returns False if partitions were assigned or revoked meanwhile."""
        client = self._transactions.client
        history, group = client.history, "" if self._subscription is None else self._subscription.group
        self._is_rebalanced = False
        began = history.now()
        limit, seconds = client.rng.choice(_POLL_RECORDS_MAX), client.rng.choice(_POLL_SECONDS)
        fetched = await self._consumer.fetch(limit, seconds)
        for (topic, index), records in by_partition(fetched).items():
            partition = TopicPartition(topic, index)
            position = self._positions.get(partition, -1)
            name = "" if self._is_rebalanced else transaction
            poll = TransactionPoll(name, group, topic, index, position)
            history.ok(history.invoke(client.name, "poll-transaction", poll, at=began), records)
            self._beginnings.setdefault(partition, records[0][0] if position < 0 else position)
            self._positions[partition] = records[-1][0] + 1
        return not self._is_rebalanced

    async def _send_offsets(self) -> None:
        """Commit the group's offsets as part of the transaction."""
        offsets = {each: OffsetAndMetadata(self._positions[each]) for each in self._beginnings}
        if self._subscription is not None and offsets:
            await self._transactions.producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def _go_back(self) -> None:
        """Poll the records of an aborted transaction again."""
        for partition, offset in self._beginnings.items():
            self._consumer.seek(partition, offset)
            self._positions[partition] = offset

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self.on_revoked(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
            self._beginnings.pop(partition, None)
            self._is_rebalanced = True
        await trio.lowlevel.checkpoint()
