"""A client that lists offsets: the ends of partitions, and the offsets of timestamps."""

import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from jepsen.processes.clients.client import Client

_ANSWER_SECONDS: Final = 5.0


def ask(client: Client) -> None:
    """Request offsets until the client has to stop."""
    admin = AdminClient(client.settings())
    # librdkafka requires a group id. The client joins no group.
    consumer = Consumer({**client.settings(), "group.id": client.plan.name})
    began_ms = int(time.time() * 1000)
    while not client.stopping.is_set():
        client.pause()
        partition = client.rng.randrange(client.plan.partitions)
        if client.rng.random() < 0.5:
            _list_end(client, admin, partition)
        else:
            _find_time(client, consumer, partition, client.rng.randint(began_ms, int(time.time() * 1000)))
    consumer.close()


def _list_end(client: Client, admin: AdminClient, partition: int) -> None:
    """The result is the offset after the last committed record, and the leader epoch of the response."""
    at = TopicPartition(client.plan.topic, partition)
    operation = client.history.invoke(client.plan.name, "list-end", (at.topic, partition))
    try:
        (future,) = admin.list_offsets(
            {at: OffsetSpec.latest()},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_ANSWER_SECONDS,
        ).values()
        told: Any = future.result()
    except KafkaException as error:
        what: Any = error.args[0]
        client.history.info(operation, str(what))
        if what.code() == KafkaError.FENCED_LEADER_EPOCH:
            _refresh_metadata(admin, at.topic)
        return
    client.history.ok(operation, (told.offset, -1 if told.leader_epoch is None else told.leader_epoch))


def _refresh_metadata(admin: AdminClient, topic: str) -> None:
    """Make librdkafka learn the leader epoch. It ignores FENCED_LEADER_EPOCH and repeats the old one for minutes."""
    with suppress(KafkaException):
        admin.list_topics(topic, timeout=_ANSWER_SECONDS)


def _find_time(client: Client, consumer: Consumer, partition: int, time_ms: int) -> None:
    """Request the offset of a timestamp. The result is negative if no record is as new as that."""
    at = TopicPartition(client.plan.topic, partition, time_ms)
    operation = client.history.invoke(client.plan.name, "find-time", (at.topic, partition, time_ms))
    try:
        (found,) = consumer.offsets_for_times([at], timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        client.history.info(operation, str(error.args[0]))
        return
    if found.error is None:
        client.history.ok(operation, found.offset)
    else:
        client.history.info(operation, str(found.error))
