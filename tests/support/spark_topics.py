"""Topics for Spark's tests, created and filled by blocking clients, because Spark's own calls block too."""

import uuid
from collections.abc import Mapping

from broker.client import NewTopic, SyncAdmin, SyncProducer


def create_topic(
    bootstrap: str, *, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None, name: str = ""
) -> str:
    """Create a topic with an unused name, and return the name."""
    chosen = name or f"topic-{uuid.uuid4().hex[:8]}"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(chosen, partitions, replicas, configs=dict(configs or {}))]).raise_first()
    return chosen


def fill_topic(
    bootstrap: str, topic: str, count: int, *, first: int = 0, partition: int = 0, timestamp_ms: int = 1_000
) -> None:
    """Write records with numbers as keys, and "v" and the number as values. Timestamps are a millisecond apart."""
    with SyncProducer(bootstrap) as producer:
        deliveries = [
            producer.send_soon(
                topic,
                b"v%d" % number,
                key=None if number % 10 == 9 else b"%d" % number,
                partition=partition,
                timestamp_ms=timestamp_ms + number,
                headers=[("n", b"%d" % number)] if number % 2 else (),
            )
            for number in range(first, first + count)
        ]
        producer.flush()
        assert [delivery.result().offset for delivery in deliveries][-1:] or not count
