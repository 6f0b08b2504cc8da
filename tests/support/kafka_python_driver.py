"""kafka-python: a client in pure Python, with a codec of its own."""

import time
from collections.abc import Mapping

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.driver import PASS_TIMEOUT_S, Progress
from tests.support.records import ClientRecord, Consumed, Shape


class KafkaPythonDriver:
    name = "kafka-python"
    shape = Shape(null_headers=False)

    def produce(self, bootstrap: str, topic: str, records: list[ClientRecord], compression: str) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if compression == "none" else compression,
            linger_ms=5,
            batch_size=65_536,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    partition=record.partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(timeout=PASS_TIMEOUT_S)
            for future in futures:
                future.get(timeout=1)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, counts: Mapping[int, int]) -> dict[int, list[Consumed]]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        progress = Progress(counts)
        try:
            assignment = [TopicPartition(topic, partition) for partition in counts]
            consumer.assign(assignment)
            for partition in assignment:
                consumer.seek(partition, 0)
            deadline = time.monotonic() + PASS_TIMEOUT_S
            while not progress.done:
                progress.require(time.monotonic() > deadline)
                for records in consumer.poll(timeout_ms=500, max_records=5_000).values():
                    for found in records:
                        record = ClientRecord(
                            found.partition, found.key, found.value, tuple(found.headers), found.timestamp
                        )
                        progress.add(Consumed(found.offset, record))
        finally:
            consumer.close()
        return progress.read
