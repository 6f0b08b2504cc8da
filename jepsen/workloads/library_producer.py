"""The idempotent producer of the client library, as an application uses it."""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from broker.client import Producer, RecordMetadata
from broker.client.producer.batch import NO_OFFSET
from jepsen.history import Operation
from jepsen.values import Sending
from jepsen.workloads.client import AMBIGUOUS, Client

# Longer than any simulation: a record that expires would leave a gap in its session.
_DELIVERY_TIMEOUT_MS: Final = 3_600_000
_REQUEST_TIMEOUT_MS: Final = 3_000


async def produce_with_library(client: Client, partitions: Sequence[tuple[str, int]], per_second: float) -> None:
    """Send unique values to all of the partitions until cancelled, `per_second` to each of them.

    After a failed record, a new producer with its own session takes over.
    """
    sessions = 0
    while True:
        sessions += 1
        await _Session(client, f"{client.name}.{sessions}", partitions, per_second * len(partitions)).run()


class _Session:
    """One producer and the records that it sends."""

    def __init__(
        self, client: Client, name: str, partitions: Sequence[tuple[str, int]], records_per_second: float
    ) -> None:
        self._client = client
        self._name = name
        self._sequences = dict.fromkeys(partitions, 0)
        self._per_second = records_per_second
        self._failed = trio.CancelScope()

    async def run(self) -> None:
        """Send until a record fails."""
        client = self._client
        async with Producer(
            client.bootstrap_servers,
            config=client.configs,
            client_id=client.name,
            environment=client.environment,
            linger_ms=client.rng.choice((0, 5, 300)),
            batch_size=client.rng.choice((200, 16_384)),
            compression_type=client.rng.choice(("none", "zstd")),
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
            retry_backoff_ms=50,
        ) as producer:
            with self._failed:
                while True:
                    await client.pause(self._per_second)
                    self._send(producer, client.rng.choice(list(self._sequences)))

    def _send(self, producer: Producer, partition: tuple[str, int]) -> None:
        topic, index = partition
        sequence = self._sequences[partition]
        self._sequences[partition] += 1
        value = f"{self._name}/{topic}-{index}/{sequence}"
        operation = self._client.history.invoke(
            self._client.name, "send", Sending(topic, index, self._name, sequence, (value,), goes_on=True)
        )
        sent = _Sent(self._client, operation, self._incarnations(topic, index), self)
        producer.send_soon(topic, f"{value}/".encode(), partition=index, on_delivery=sent.delivered)

    def _incarnations(self, topic: str, partition: int) -> set[int]:
        """The incarnations of the partition at all servers; any of them may receive the record."""
        hosts = [host for host, _ in self._client.servers]
        told = [self._client.partition_incarnation(host, topic, partition) for host in hosts]
        return {
            self._client.incarnations(host) if incarnation is None else incarnation
            for host, incarnation in zip(hosts, told, strict=True)
        }

    def failed(self) -> None:
        self._failed.cancel()

    def incarnations_of(self, operation: Operation) -> set[int]:
        return self._incarnations(operation.value.topic, operation.value.partition)


@attrs.frozen
class _Sent:
    """A record in flight. `incarnations` are those of the servers when the record was passed to the producer."""

    client: Client
    operation: Operation
    incarnations: set[int]
    session: _Session

    def delivered(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        history = self.client.history
        if metadata is None:
            history.info(self.operation, str(error))
            self.session.failed()
        elif len(self.incarnations) == 1 and self.session.incarnations_of(self.operation) == self.incarnations:
            (incarnation,) = self.incarnations
            # For a duplicate batch that the leader no longer remembers, the response has no offset: it is in the log
            # somewhere.
            history.ok(
                self.operation, None if metadata.offset == NO_OFFSET else metadata.offset, incarnation=incarnation
            )
        else:
            history.info(self.operation, AMBIGUOUS)
