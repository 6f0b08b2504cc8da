"""The contents of a topic, as confluent-kafka reads it."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import trio
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message, TopicPartition

from tests.support.confluent_driver import create_topic, new_consumer

_TIMEOUT_S = 60.0
# The time for which the client waits for more messages, even if it has received some.
_POLL_S = 0.05
_AT_ONCE = 100_000


class ReadRecord(NamedTuple):
    """A record as it was read."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


async def make_topic(bootstrap: str, topic: str, partitions: int = 1, **configs: object) -> None:
    """Create a topic with one replica; `_` in the name of a config stands for `.`."""
    await trio.to_thread.run_sync(lambda: create_topic(bootstrap, topic, partitions, **configs))


async def read_all(bootstrap: str, topic: str, partitions: int = 1) -> Mapping[int, list[ReadRecord]]:
    """All records of a topic, by partition."""
    return await trio.to_thread.run_sync(_read_all, bootstrap, topic, partitions)


def _read_all(bootstrap: str, topic: str, partitions: int) -> Mapping[int, list[ReadRecord]]:
    consumer = new_consumer(bootstrap, **{"enable.partition.eof": True})
    read: dict[int, list[ReadRecord]] = {number: [] for number in range(partitions)}
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended = 0
        give_up_at = time.monotonic() + _TIMEOUT_S
        while ended < partitions:
            assert time.monotonic() < give_up_at, f"{ended} of {partitions} partitions read to the end"
            for message in consumer.consume(_AT_ONCE, _POLL_S):
                if message.error() is None:
                    read[message.partition() or 0].append(_record(message))
                else:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    ended += 1
        return read
    finally:
        consumer.close()


def _record(message: Message) -> ReadRecord:
    kind, timestamp_ms = message.timestamp()
    offset = message.offset()
    assert kind == TIMESTAMP_CREATE_TIME
    assert offset is not None
    return ReadRecord(offset, timestamp_ms, message.key(), message.value(), message.headers() or [])
