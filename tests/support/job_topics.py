"""Topics for the Spark jobs, written and read by the blocking clients."""

from collections.abc import Iterable
from typing import Any

import trio

from broker.client import ConsumerRecord, NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition
from tests.support.requests import batch, produce
from tests.support.wire_client import connected

# The start of a day: 2026-01-02 in UTC, in milliseconds since 1970.
DAY_MS = 1_767_312_000_000
HOUR_MS = 3_600_000


class JobTopics:
    """The topics of one node."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @property
    def options(self) -> dict[str, str]:
        """The options of `format("kraft")`."""
        return {"kafka.bootstrap.servers": self.bootstrap}

    def create(self, name: str, partitions: int = 1) -> str:
        with SyncAdmin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, num_partitions=partitions)]).raise_first()
        return name

    def delete(self, name: str) -> None:
        with SyncAdmin(self.bootstrap) as admin:
            admin.delete_topics([name]).raise_first()

    def cut(self, name: str, partition: int, before: int) -> None:
        """Delete the records before an offset."""
        with SyncAdmin(self.bootstrap) as admin:
            admin.delete_records({TopicPartition(name, partition): before}).raise_first()

    def write(self, name: str, records: Iterable[dict[str, Any]]) -> None:
        """Write records, given as keyword arguments of `send_soon`. A value is bytes or None."""
        with SyncProducer(self.bootstrap) as producer:
            for record in records:
                producer.send_soon(name, **record)
            producer.flush()

    def write_numbered(self, name: str, partition: int, producer_id: int, sequence: int, count: int) -> None:
        """Write records of an idempotent producer, beginning at a sequence number.

        As in Kafka, a producer that a partition does not know may begin with any number.
        """
        numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        records = batch(*[b"v"] * count, timestamp=DAY_MS, **numbers)
        trio.run(self._produce, name, partition, records)

    async def _produce(self, name: str, partition: int, records: bytes) -> None:
        async with connected(int(self.bootstrap.rpartition(":")[2])) as client:
            answered = await produce(client, records, topic=name, index=partition)
            assert answered.error_code == 0, answered

    def read(self, name: str, count: int) -> list[ConsumerRecord]:
        """Read `count` records of a topic, those of each partition in order."""
        found: list[ConsumerRecord] = []
        with SyncConsumer(self.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(name, each.partition) for each in consumer.partitions_for(name)])
            while len(found) < count:
                fetched = consumer.fetch(timeout_s=20)
                assert fetched, f"{len(found)} records of {count}"
                found += fetched
        return found
