"""confluent-kafka, which is based on librdkafka, like most other clients."""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.driver import PASS_TIMEOUT_S, Progress
from tests.support.records import ClientRecord, Consumed, Shape


class DeliveryLedger:
    """Delivery reports of one producer: the offset of each acknowledged record, and every error."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = {}
        self.errors: list[KafkaError] = []

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.offsets.setdefault(partition, []).append(offset)


def create_topic(bootstrap: str, topic: str, partitions: int, **configs: object) -> None:
    """Create a topic with one replica; `_` in the name of a config stands for `.`."""
    create_replicated_topic(bootstrap, topic, partitions, 1, **configs)


def create_replicated_topic(bootstrap: str, topic: str, partitions: int, replicas: int, **configs: object) -> None:
    """Create a topic, and wait until each of the bootstrap servers knows the leaders of its partitions."""
    named = {key.replace("_", "."): str(value) for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, replicas, config=named)])[topic].result(30)
    servers = bootstrap.split(",")
    if len(servers) > 1:
        for server in servers:
            _wait_until_led(server, topic, partitions)


def _wait_until_led(server: str, topic: str, partitions: int) -> None:
    """Wait until a server knows the leaders: brokers learn of a topic a moment after the controller has acknowledged
    it.
    """
    admin = AdminClient({"bootstrap.servers": server})
    deadline = time.monotonic() + PASS_TIMEOUT_S
    while True:
        found = admin.list_topics(timeout=30).topics.get(topic)
        led = [] if found is None else [each for each in found.partitions.values() if each.leader >= 0]
        if len(led) == partitions:
            return
        assert time.monotonic() < deadline, f"{server} does not know the leaders of {topic}"
        time.sleep(0.02)


def send(producer: Producer, record: ClientRecord, topic: str, ledger: DeliveryLedger) -> None:
    """Hand one record to the producer, and wait if its queue is full."""
    fields = {
        "partition": record.partition,
        "key": record.key,
        "value": record.value,
        "headers": list(record.headers) or None,
        "timestamp": record.timestamp_ms or 0,
        "on_delivery": ledger.report,
    }
    while True:
        try:
            producer.produce(topic, **fields)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def new_consumer(bootstrap: str, errors: list[KafkaError] | None = None, **settings: object) -> Consumer:
    """A consumer for `assign`. The library requires a group id, which is not used."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "error_cb": (errors if errors is not None else []).append,
            **settings,
        }
    )


def watermarks(bootstrap: str, topic: str, partitions: int) -> list[tuple[int, int]]:
    """The first offset and the offset after the last record, for each partition."""
    consumer = new_consumer(bootstrap)
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            for partition in range(partitions)
        ]
    finally:
        consumer.close()


class ConfluentDriver:
    name = "confluent-kafka"
    shape = Shape()

    def produce(self, bootstrap: str, topic: str, records: list[ClientRecord], compression: str) -> None:
        ledger = DeliveryLedger()
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": compression,
                "error_cb": ledger.errors.append,
            }
        )
        for record in records:
            send(producer, record, topic, ledger)
            producer.poll(0)
        assert producer.flush(PASS_TIMEOUT_S) == 0
        assert not ledger.errors
        assert sum(map(len, ledger.offsets.values())) == len(records)

    def consume(self, bootstrap: str, topic: str, counts: Mapping[int, int]) -> dict[int, list[Consumed]]:
        errors: list[KafkaError] = []
        consumer = new_consumer(bootstrap, errors)
        progress = Progress(counts)
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in counts])
            deadline = time.monotonic() + PASS_TIMEOUT_S
            while not progress.done:
                progress.require(time.monotonic() > deadline)
                for message in consumer.consume(1_000, timeout=0.05):
                    progress.add(_consumed(message))
        finally:
            consumer.close()
        assert not errors
        return progress.read


def _consumed(message: Message) -> Consumed:
    assert message.error() is None, message.error()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Consumed(
        offset,
        ClientRecord(
            partition,
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
            message.timestamp()[1],
        ),
    )
