"""Members of share groups by client libraries: the project's own, and librdkafka.

They acknowledge each record that they get, and record the deliveries and the acknowledgements. A library may acquire
records that it never gives, and may hold others for longer than it shows. So only what it gives is recorded, and the
time of a lock is not (see `ShareGroupSettings.has_libraries`).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeAlias

import confluent_kafka
import trio
from confluent_kafka import KafkaException

from broker.client import ClientError, ConnectionLost, KafkaError, RecordNotAcquired, ShareConsumer, ShareRecord
from jepsen.history import History, Operation
from jepsen.processes.clients.client import Client
from jepsen.share_values import UNKNOWN_EPOCH, Acknowledging, Acquired, Acquiring
from jepsen.workloads import client as workload
from jepsen.workloads.share_member import batches_of, is_poison
from metadata.protocol import AcknowledgeType

# A partition of the topic, and for each offset what a member says about the record.
_Kinds: TypeAlias = dict[int, dict[int, AcknowledgeType]]

# Its type stubs lack share consumers.
_LIBRDKAFKA: Final[Any] = confluent_kafka
_POLL_SECONDS: Final = 0.5
_COMMIT_SECONDS: Final = 8.0
_CHOICES: Final[Sequence[AcknowledgeType]] = (
    *(AcknowledgeType.ACCEPT,) * 12,
    *(AcknowledgeType.RELEASE,) * 3,
    AcknowledgeType.REJECT,
)
# The probability that a record is renewed before it is acknowledged.
_RENEWS: Final = 0.1
# The probability that a member works on its records for some time, at most for so many seconds: locks expire then.
_WORKS: Final = 0.1
_WORK_SECONDS_MAX: Final = 8.0
_RECORDS_MAX: Final = (1, 20, 500)
# How long after an error another consumer is made.
_PAUSE_SECONDS: Final = 1.0


class _Recorder:
    """Records the deliveries to one consumer, and its acknowledgements. Its `name` is unique."""

    def __init__(self, history: History, client: str, group: str, topic: str, name: str) -> None:
        self._history = history
        self._client = client
        self._place = group, name, name, topic

    def deliveries(self, began: float, records: Iterable[tuple[int, int, bytes, int]]) -> None:
        """Partition, offset, content and delivery count of each record of a poll."""
        by_partition: dict[int, list[tuple[int, str, int]]] = {}
        for partition, offset, content, count in records:
            value = content.rpartition(b"/")[0].decode()
            by_partition.setdefault(partition, []).append((offset, value, count))
        for partition, got in by_partition.items():
            acquiring = Acquiring(*self._place, partition)
            operation = self._history.invoke(self._client, "acquire", acquiring, at=began)
            self._history.ok(operation, Acquired(tuple(sorted(got)), 0))

    def acknowledge(self, kinds: _Kinds) -> dict[int, Operation]:
        """Record acknowledgements that are about to be sent."""
        return {
            partition: self._history.invoke(
                self._client,
                "acknowledge",
                Acknowledging(
                    *self._place,
                    partition,
                    tuple((first, last, int(kind)) for first, last, kind in batches_of(dict(sorted(its.items())))),
                ),
            )
            for partition, its in kinds.items()
            if its
        }

    def acknowledged(self, operations: Mapping[int, Operation], errors: Mapping[int, str | None]) -> None:
        """Record the outcome by partition: None, or an error. A library may have sent several requests, so that some
        acknowledgements took effect in spite of an error.
        """
        for partition, operation in operations.items():
            error = errors.get(partition, "no result")
            if error is None:
                self._history.ok(operation, UNKNOWN_EPOCH)
            else:
                self._history.info(operation, error)


def _choice(rng: Random, value: bytes) -> AcknowledgeType:
    if is_poison(value.rpartition(b"/")[0].decode()):
        return AcknowledgeType.RELEASE
    return rng.choice(_CHOICES)


# The client library


async def share_with_kraft(client: workload.Client, group: str, topic: str) -> None:
    """Be a member with the project's client library until cancelled."""
    consumers = 0
    while True:
        name = f"{client.name}.{consumers}"
        consumers += 1
        with suppress(ConnectionLost, KafkaError, ClientError):
            await _consume_with_kraft(client, _Recorder(client.history, client.name, group, topic, name), group, topic)
        await trio.sleep(_PAUSE_SECONDS)


async def _consume_with_kraft(client: workload.Client, recorder: _Recorder, group: str, topic: str) -> None:
    """Raises ConnectionLost, KafkaError, ClientError."""
    async with ShareConsumer(
        client.bootstrap_servers,
        config=client.configs,
        client_id=client.name,
        topics=[topic],
        group_id=group,
        share_acknowledgement_mode="explicit",
        share_acquire_mode=client.rng.choice(("batch_optimized", "record_limit")),
        max_poll_records=client.rng.choice(_RECORDS_MAX),
        request_timeout_ms=4_000,
        default_api_timeout_ms=int(_COMMIT_SECONDS * 1000),
    ) as consumer:
        while True:
            began = client.history.now()
            records = await consumer.fetch(timeout_s=_POLL_SECONDS)
            recorder.deliveries(began, ((r.partition, r.offset, r.value or b"", r.delivery_count) for r in records))
            if client.rng.random() < _WORKS:
                await trio.sleep(client.rng.uniform(0, _WORK_SECONDS_MAX))
            renewed = {r: AcknowledgeType.RENEW for r in records if client.rng.random() < _RENEWS}
            await _say(consumer, recorder, renewed)
            await _say(consumer, recorder, {r: _choice(client.rng, r.value or b"") for r in records})


async def _say(
    consumer: ShareConsumer[bytes, bytes],
    recorder: _Recorder,
    said: Mapping[ShareRecord[bytes, bytes], AcknowledgeType],
) -> None:
    """Acknowledge the records that the consumer still has, and wait for the result. Raises as `commit` does."""
    kinds: _Kinds = {}
    for record, kind in said.items():
        with suppress(RecordNotAcquired):
            consumer.acknowledge(record, kind)
            kinds.setdefault(record.partition, {})[record.offset] = kind
    if kinds:
        operations = recorder.acknowledge(kinds)
        results = await consumer.commit()
        errors = {each.partition: None if error is None else str(error) for each, error in results.items()}
        recorder.acknowledged(operations, errors)


# librdkafka


def share_with_librdkafka(client: Client) -> None:
    """Be a member with librdkafka's share consumer until the client has to stop."""
    member = client.plan.member
    assert member is not None, "the plan of a member"
    consumers = 0
    while not client.stopping.is_set():
        name = f"{client.plan.name}.{consumers}"
        consumers += 1
        recorder = _Recorder(client.history, client.plan.name, member.group, client.plan.topic, name)
        consumer = _LIBRDKAFKA.ShareConsumer(
            {**client.settings(), "group.id": member.group, "share.acknowledgement.mode": "explicit"}
        )
        try:
            consumer.subscribe([client.plan.topic])
            while not client.stopping.is_set():
                _poll_with_librdkafka(client, consumer, recorder)
        except KafkaException:
            client.stopping.wait(_PAUSE_SECONDS)
        finally:
            with suppress(KafkaException):
                consumer.close()


def _poll_with_librdkafka(client: Client, consumer: Any, recorder: _Recorder) -> None:
    """Raises KafkaException."""
    began = client.history.now()
    messages = [message for message in consumer.poll(timeout=_POLL_SECONDS) if message.error() is None]
    recorder.deliveries(began, ((m.partition(), m.offset(), m.value(), m.delivery_count()) for m in messages))
    if client.rng.random() < _WORKS:
        client.stopping.wait(client.rng.uniform(0, _WORK_SECONDS_MAX))
    kinds: _Kinds = {}
    for message in messages:
        kind = _choice(client.rng, message.value())
        with suppress(_LIBRDKAFKA.IllegalStateException):
            consumer.acknowledge(message, _LIBRDKAFKA.AcknowledgeType(int(kind)))
            kinds.setdefault(message.partition(), {})[message.offset()] = kind
    if kinds:
        operations = recorder.acknowledge(kinds)
        results = consumer.commit_sync(timeout=_COMMIT_SECONDS)
        errors = {each.partition: None if error is None else str(error) for each, error in results.items()}
        recorder.acknowledged(operations, errors)
