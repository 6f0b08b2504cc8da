"""Topics for the Spark jobs: written and read by the blocking clients."""

from collections.abc import Iterable
from typing import Any

from broker.client import ConsumerRecord, NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition

# A day that begins at a round number of milliseconds: 2026-01-02 in UTC.
DAY_MS = 1_767_312_000_000
HOUR_MS = 3_600_000


class JobTopics:
    """The topics of one node."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @property
    def options(self) -> dict[str, str]:
        """Those of `format("kraft")`."""
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
        """Records as the keyword arguments of `send_soon`, with a value of bytes or None."""
        with SyncProducer(self.bootstrap) as producer:
            for record in records:
                producer.send_soon(name, **record)
            producer.flush()

    def read(self, name: str, count: int) -> list[ConsumerRecord]:
        """The first records of a topic, those of a partition in their order."""
        found: list[ConsumerRecord] = []
        with SyncConsumer(self.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(name, each.partition) for each in consumer.partitions_for(name)])
            while len(found) < count:
                fetched = consumer.fetch(timeout_s=20)
                assert fetched, f"{len(found)} records of {count}"
                found += fetched
        return found
