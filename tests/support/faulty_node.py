"""A node within the test's process whose requests pass through faults, and clients that retry fast."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from jepsen.testing.faults import ActiveFault, RequestFilter, ServedRequest, fault_of, filtered_dispatchers
from jepsen.testing.faults.fault import Selection
from tests.support.produced import make_topic
from tests.support.running_node import NODE_ID, RunningNode, running_node

WITHIN_S = 30.0
_RETRIES = {
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 20,
}
_GROUPS = {"group_initial_rebalance_delay_ms": 0}


@attrs.frozen
class FaultyNode:
    running: RunningNode
    requests: RequestFilter

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.running.port}"

    @contextmanager
    def fault(self, **words: Any) -> Iterator[ActiveFault]:
        """A fault in these words, in force within the block."""
        active = self.requests.begin(fault_of(words))
        try:
            yield active
        finally:
            self.requests.end(active)

    def served(self, api: str, **selected: Any) -> list[ServedRequest]:
        return list(self.requests.history.matching(Selection(apis=frozenset([api]), **selected)))

    async def topic(self, name: str, partitions: int = 1) -> str:
        await make_topic(self.bootstrap, name, partitions)
        return name

    async def topics(self, client_id: str) -> set[str]:
        """The topics that a new client learns of."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "client.id": client_id})
        return set((await trio.to_thread.run_sync(lambda: admin.list_topics(timeout=WITHIN_S))).topics)

    async def produce(self, topic: str, *values: bytes, partition: int = 0, **settings: object) -> list[str]:
        """Produce the records. Returns the errors of those that have failed, by Kafka's name."""
        return await trio.to_thread.run_sync(lambda: self._produce(topic, values, partition, settings))

    def _produce(self, topic: str, values: tuple[bytes, ...], partition: int, settings: dict[str, object]) -> list[str]:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, **_RETRIES, **settings})
        errors: list[str] = []
        for value in values:
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: error and errors.append(error.name())
            )
        assert producer.flush(WITHIN_S) == 0, "not all records are answered"
        return errors

    async def read(self, topic: str, count: int, partition: int = 0, **settings: object) -> list[bytes | None]:
        """The values of the first records of a partition."""
        return await trio.to_thread.run_sync(lambda: self._read(topic, count, partition, settings))

    def _read(self, topic: str, count: int, partition: int, settings: dict[str, object]) -> list[bytes | None]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "readers",
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 10,
                **_RETRIES,
                **settings,
            }
        )
        found: list[Message] = []
        deadline = time.monotonic() + WITHIN_S
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records are read"
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    found.append(message)
        finally:
            consumer.close()
        return [message.value() for message in found]


@asynccontextmanager
async def faulty_node(directory: Path, **overrides: object) -> AsyncIterator[FaultyNode]:
    """A node that serves within the block. No fault may make a handler fail."""
    requests = RequestFilter(NODE_ID, time.time)
    async with running_node(
        directory, dispatchers=filtered_dispatchers(requests), **{**_GROUPS, **overrides}
    ) as running:
        yield FaultyNode(running, requests)
        failed = running.traced.of("handler_failed")
        assert not failed, failed
