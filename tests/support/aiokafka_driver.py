"""aiokafka: asyncio, and a third codec. Each pass runs in an event loop of its own."""

import asyncio
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.support.driver import PASS_TIMEOUT_S, Progress
from tests.support.records import ClientRecord, Consumed, Shape


class AiokafkaDriver:
    name = "aiokafka"
    shape = Shape()

    def produce(self, bootstrap: str, topic: str, records: list[ClientRecord], compression: str) -> None:
        asyncio.run(asyncio.wait_for(self._produce(bootstrap, topic, records, compression), PASS_TIMEOUT_S))

    async def _produce(self, bootstrap: str, topic: str, records: list[ClientRecord], compression: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=True,
            max_batch_size=65_536,
        )
        await producer.start()
        try:
            deliveries = [
                await producer.send(
                    topic,
                    partition=record.partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            await asyncio.gather(*deliveries)
        finally:
            await producer.stop()

    def consume(self, bootstrap: str, topic: str, counts: Mapping[int, int]) -> dict[int, list[Consumed]]:
        progress = Progress(counts)
        asyncio.run(asyncio.wait_for(self._consume(bootstrap, topic, progress), PASS_TIMEOUT_S))
        return progress.read

    async def _consume(self, bootstrap: str, topic: str, progress: Progress) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        await consumer.start()
        try:
            assignment = [TopicPartition(topic, partition) for partition in progress.read]
            consumer.assign(assignment)
            for partition in assignment:
                consumer.seek(partition, 0)
            while not progress.done:
                for records in (await consumer.getmany(timeout_ms=500, max_records=5_000)).values():
                    for found in records:
                        record = ClientRecord(
                            found.partition, found.key, found.value, tuple(found.headers), found.timestamp
                        )
                        progress.add(Consumed(found.offset, record))
        finally:
            await consumer.stop()
