"""A producer of unique values. Each producer of librdkafka that it makes is a session, in whose order they are sent."""

import time
from collections import Counter
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jepsen.history import Operation
from jepsen.processes.clients.client import Client
from jepsen.values import Sending

# The most unacknowledged records. Beyond that, the producer waits.
OUTSTANDING_MAX: Final = 500
# How long to wait for acknowledgements after recovery.
_FLUSH_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1
# Sizes of what is added to values: most are small, some fill segments.
_PADDINGS: Final = (0, 20, 100, 1_000)
# Errors after which the record is certainly not in the log, and never will be.
_REFUSALS: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD)


def produce(client: Client) -> None:
    """Produce until the client has to stop. A session that librdkafka declares over is followed by another."""
    sessions = 0
    while not client.stopping.is_set():
        _Session(client, f"{client.plan.name}.{sessions}").run()
        sessions += 1


class _Session:
    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._sequences: Counter[int] = Counter()
        self._outstanding = 0
        self._is_over = False
        self._producer = Producer(self._settings())

    def _settings(self) -> dict[str, object]:
        settings = self._client.settings(acks="all", enable_idempotence="true", linger_ms=2)
        # Never expires: a record that is given up would leave a gap in the order of its session.
        settings["message.timeout.ms"] = 0
        settings["request.timeout.ms"] = 4_000
        # Without it, a poll would raise what is fatal.
        settings["error_cb"] = self._on_error
        if not self._client.plan.is_idempotent:
            settings |= {"acks": "1", "enable.idempotence": "false"}
        return settings

    def _on_error(self, error: KafkaError) -> None:
        """End the session after a fatal error: the broker's state of this producer does not match the session.

        After a restart, a broker (as Kafka's) knows only the last batch of each producer, and recognizes no earlier
        batch as a duplicate.
        """
        self._is_over = self._is_over or error.fatal()

    def run(self) -> None:
        stopping = self._client.stopping
        while not (stopping.is_set() or self._is_over):
            if self._outstanding < OUTSTANDING_MAX:
                self._send()
                self._client.pause()
                self._producer.poll(0)
            else:
                self._producer.poll(_POLL_SECONDS)
        self._producer.flush(_FLUSH_SECONDS)
        self._producer.purge()
        self._producer.flush(_POLL_SECONDS)

    def _send(self) -> None:
        plan, rng = self._client.plan, self._client.rng
        partition = rng.randrange(plan.partitions)
        sequence = self._sequences[partition]
        time_ms = int(time.time() * 1000)
        # See `jepsen.checkers.offsets.time_of`.
        value = f"{self._name}/{partition}@{time_ms}/{sequence}"
        session = self._name if plan.is_idempotent else ""
        operation = self._client.history.invoke(
            plan.name, "send", Sending(plan.topic, partition, session, sequence, (value,))
        )
        content = f"{value}/{'x' * rng.choice(_PADDINGS)}".encode()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(operation, error, message)

        try:
            self._producer.produce(plan.topic, content, partition=partition, timestamp=time_ms, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            self._client.history.fail(operation, str(error))
            self._is_over = True
            return
        self._sequences[partition] += 1
        self._outstanding += 1

    def _delivered(self, operation: Operation, error: KafkaError | None, message: Message) -> None:
        self._outstanding -= 1
        history, offset = self._client.history, message.offset()
        if error is None:
            # None if this record was acknowledged by way of a later one.
            history.ok(operation, offset if offset is not None and offset >= 0 else None)
        elif error.code() in _REFUSALS:
            history.fail(operation, error.name())
        else:
            history.info(operation, error.name())
