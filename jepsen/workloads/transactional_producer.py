"""Transactional producers of the client library: each transaction writes to several partitions.

Several of these may share a transactional id. A producer that begins fences the others, which may still have records
under way, or pause in the middle of a transaction and go on with it later (zombies).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from broker.client import (
    ClientError,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    TopicPartition,
    TransactionAbortable,
)
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.producer.batch import NO_OFFSET
from jepsen.history import Operation, Outcome
from jepsen.values import Decision, Sending, Transaction
from jepsen.workloads.client import Client

# A transaction that is open for longer is aborted by the coordinator.
TIMEOUT_MS: Final = 6_000
# Longer than any simulation: a call that is given up would leave open what it has done.
_FOREVER_MS: Final = 3_600_000
_REQUEST_TIMEOUT_MS: Final = 3_000
_PARTITIONS_MAX: Final = 4
_RECORDS_MAX: Final = 3
_COMMITS: Final = 0.7
# The chance that a producer pauses in the middle of a transaction, during which it may be fenced, and for how long.
_PAUSES: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 10.0
# The chance per transaction that a producer makes room for a new one.
_ENDS: Final = 0.05
_BETWEEN_PRODUCERS_SECONDS: Final = 3.0


class ProducerOver(Exception):
    """The producer was fenced or has failed: another one has to be opened."""


async def write_transactions(
    client: Client, transactional_id: str, partitions: Sequence[tuple[str, int]], per_second: float
) -> None:
    """Write transactions of unique values until cancelled, with one producer after the other."""
    sessions = 0
    while True:
        sessions += 1
        try:
            async with open_producer(client, transactional_id) as producer:
                await _write(Transactions(client, producer, transactional_id, sessions), partitions, per_second)
        except (ProducerOver, KafkaError, ClientError):
            pass
        await client.pause(1 / _BETWEEN_PRODUCERS_SECONDS)


def open_producer(client: Client, transactional_id: str) -> Producer:
    return Producer(
        client.bootstrap_servers,
        config=client.configs,
        client_id=client.name,
        environment=client.environment,
        transactional_id=transactional_id,
        transaction_timeout_ms=TIMEOUT_MS,
        linger_ms=client.rng.choice((0, 5, 100)),
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        delivery_timeout_ms=client.rng.choice((5_000, _FOREVER_MS)),
        max_block_ms=_FOREVER_MS,
        retry_backoff_ms=50,
        metadata_max_age_ms=10_000,
    )


async def _write(transactions: "Transactions", partitions: Sequence[tuple[str, int]], per_second: float) -> None:
    """Write transactions until another producer's turn. Raises ProducerOver, KafkaError, ClientError."""
    client = transactions.client
    while True:
        await client.pause(per_second)
        chosen = client.rng.sample(partitions, client.rng.randint(1, min(_PARTITIONS_MAX, len(partitions))))
        name = transactions.next_name()
        records = tuple(
            (topic, index, tuple(f"{name}/{topic}-{index}/{at}" for at in range(client.rng.randint(1, _RECORDS_MAX))))
            for topic, index in sorted(chosen)
        )
        await transactions.run(Transaction(transactions.transactional_id, name, records))
        if client.rng.random() < _ENDS:
            return


class Transactions:
    """The transactions of one producer, the `serial`th of its client. With `has_pauses`, some have a pause."""

    def __init__(
        self, client: Client, producer: Producer, transactional_id: str, serial: int, *, has_pauses: bool = True
    ) -> None:
        self._pauses = _PAUSES if has_pauses else 0.0
        self.client = client
        self.producer = producer
        self.transactional_id = transactional_id
        self._serial = serial
        self._count = 0

    def next_name(self) -> str:
        """A unique name for a transaction."""
        self._count += 1
        return f"{self.client.name}.{self._serial}.{self._count}"

    async def run(self, value: Transaction, group: GroupMetadata | None = None, commits: float = _COMMITS) -> bool:
        """Execute a transaction and record it. Returns True if it is committed, and False if it is aborted.

        With `group`, the transaction commits its offsets. `commits` is the probability that the application commits it.
        Raises ProducerOver.
        """

        async def work(sendings: Sendings) -> bool:
            await self._send(value, sendings)
            if group is not None:
                await self.producer.send_offsets_to_transaction(offsets_of(value), group)
            return True

        return await self.perform(value, work, commits)

    async def perform(
        self, value: Transaction, work: Callable[["Sendings"], Awaitable[bool]], commits: float = _COMMITS
    ) -> bool:
        """Execute a transaction and record it. `work` sends its records, and returns False to abort it. `commits` is
        the probability that it is committed otherwise.

        Returns True if it is committed, and False if it is aborted. Raises ProducerOver.
        """
        client, history = self.client, self.client.history
        begun = history.invoke(client.name, "transact", value)
        sendings = Sendings(client, self.producer)
        try:
            await self.producer.begin_transaction()
            may_commit = await work(sendings)
        except (KafkaError, ClientError) as error:
            history.info(begun, str(error))
            return await self._abort(value, sendings, error)
        history.ok(begun, None)
        if not may_commit or client.rng.random() >= commits:
            return await self._abort(value, sendings, None)
        return await self._commit(value, sendings)

    async def _send(self, value: Transaction, sendings: "Sendings") -> None:
        rng = self.client.rng
        for topic, index, values in value.records:
            for each in values:
                sendings.send(topic, index, each)
            if rng.random() < 0.3:
                await trio.sleep(rng.uniform(0, 0.2))
            if rng.random() < self._pauses / len(value.records):
                await trio.sleep(rng.uniform(0, _PAUSE_SECONDS_MAX))

    async def _commit(self, value: Transaction, sendings: "Sendings") -> bool:
        history = self.client.history
        decision = history.invoke(self.client.name, "end-transaction", Decision(value.name, is_commit=True))
        try:
            await self.producer.commit_transaction()
        except (KafkaError, ClientError) as error:
            # A response may have been lost: the transaction may be committed.
            history.info(decision, f"{type(error).__name__}: {error}")
            sendings.end(Outcome.INFO)
            if not isinstance(error, TransactionAbortable):
                raise ProducerOver from error
            return await self._abort(value, sendings, error)
        history.ok(decision, None)
        sendings.end(Outcome.OK)
        return True

    async def _abort(self, value: Transaction, sendings: "Sendings", cause: Exception | None) -> bool:
        history = self.client.history
        decision = history.invoke(self.client.name, "end-transaction", Decision(value.name, is_commit=False))
        sendings.end(Outcome.FAIL)
        if cause is not None and not isinstance(cause, TransactionAbortable):
            history.info(decision, f"{type(cause).__name__}: {cause}")
            raise ProducerOver from cause
        try:
            await self.producer.abort_transaction()
        except (KafkaError, ClientError) as error:
            history.info(decision, f"{type(error).__name__}: {error}")
            raise ProducerOver from error
        history.ok(decision, None)
        return False


class Sendings:
    """The records of a transaction as `send` operations, which end with the transaction."""

    def __init__(self, client: Client, producer: Producer) -> None:
        self._client = client
        self._producer = producer
        self._sent: list[_Sent] = []

    def send(self, topic: str, index: int, value: str) -> None:
        """Send a record, without waiting for it."""
        operation = self._client.history.invoke(self._client.name, "send", Sending(topic, index, "", 0, (value,)))
        self._sent.append(_Sent(operation))
        self._producer.send_soon(topic, value.encode(), partition=index, on_delivery=self._sent[-1].delivered)

    def end(self, outcome: Outcome) -> None:
        """Complete the operations, unless they are complete."""
        sent, self._sent = self._sent, []
        for each in sent:
            match outcome:
                case Outcome.OK:
                    self._client.history.ok(each.operation, each.offset)
                case Outcome.FAIL:
                    self._client.history.fail(each.operation, "the transaction was aborted")
                case Outcome.INFO:
                    self._client.history.info(each.operation, "the transaction may be committed")


@attrs.define
class _Sent:
    """A record and its offset, None while that is unknown."""

    operation: Operation
    offset: int | None = None

    def delivered(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is not None and metadata.offset != NO_OFFSET:
            self.offset = metadata.offset


def offsets_of(value: Transaction) -> Mapping[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(topic, index): OffsetAndMetadata(offset) for topic, index, offset in value.offsets}
