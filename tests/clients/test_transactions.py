"""Transactions as clients see them: commit, abort, fencing, timeouts, and consumers that read committed records."""

import asyncio
import time
from collections.abc import Callable, Iterator

import aiokafka
import confluent_kafka
import pytest
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition as AiokafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

WITHIN_S = 30.0
CLUSTER = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("transactions"), overrides=CLUSTER) as cluster:
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture(params=["one node", "three nodes"])
def brokers(request: pytest.FixtureRequest) -> str:
    """The address of one node, or of a cluster of three."""
    if request.param == "one node":
        address: str = request.getfixturevalue("bootstrap")
        return address
    return str(request.getfixturevalue("cluster").bootstrap)


def create_topic(brokers: str, topic: str, *, partitions: int = 3, replicas: int = -1) -> None:
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(WITHIN_S)


def new_producer(brokers: str, transactional_id: str, **settings: object) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {"bootstrap.servers": brokers, "transactional.id": transactional_id, "logger": None, "log_level": 0, **settings}
    )


def read(brokers: str, topic: str, *, partitions: int = 3, isolation: str = "read_committed") -> list[str]:
    """All values up to the end that a consumer with this isolation level sees, sorted."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
    values, open_partitions, until = [], partitions, time.monotonic() + WITHIN_S
    while open_partitions:
        assert time.monotonic() < until, "the end of a partition was not reached in time"
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            open_partitions -= 1
        else:
            values.append(message.value().decode())
    consumer.close()
    return sorted(values)


def transact(producer: confluent_kafka.Producer, topic: str, values: list[str], *, commit: bool) -> None:
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % 3)
    producer.flush(WITHIN_S)
    if commit:
        producer.commit_transaction(WITHIN_S)
    else:
        producer.abort_transaction(WITHIN_S)


def test_read_committed_consumer_sees_committed_transactions_only(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)
    producer = new_producer(brokers, topic)
    producer.init_transactions(WITHIN_S)
    expected, written = [], []
    for number, commit in enumerate((True, False, True, False, False, True)):
        values = [f"{number}-{each}" for each in range(5)]
        transact(producer, topic, values, commit=commit)
        written += values
        expected += values if commit else []

    assert read(brokers, topic) == expected
    assert read(brokers, topic, isolation="read_uncommitted") == written


def test_open_transaction_holds_back_read_committed_consumers(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)
    producer = new_producer(brokers, topic)
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(WITHIN_S)

    assert read(brokers, topic) == []
    assert read(brokers, topic, isolation="read_uncommitted") == ["open"]
    producer.commit_transaction(WITHIN_S)
    assert read(brokers, topic) == ["open"]


def test_second_instance_fences_the_first_and_aborts_its_transaction(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)
    first, second = new_producer(brokers, topic), new_producer(brokers, topic)
    first.init_transactions(WITHIN_S)
    first.begin_transaction()
    first.produce(topic, b"of a zombie", partition=0)
    first.flush(WITHIN_S)
    second.init_transactions(WITHIN_S)
    transact(second, topic, ["of the second"], commit=True)

    with pytest.raises(confluent_kafka.KafkaException) as raised:
        first.commit_transaction(WITHIN_S)
    assert raised.value.args[0].fatal()
    assert raised.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    assert read(brokers, topic) == ["of the second"]


def test_offsets_are_committed_with_their_transaction(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)
    producer = new_producer(brokers, topic)
    producer.init_transactions(WITHIN_S)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers, "group.id": topic, "enable.auto.commit": False})
    partition = confluent_kafka.TopicPartition(topic, 0)

    def commit_offset(offset: int, *, commit: bool) -> None:
        producer.begin_transaction()
        producer.produce(topic, b"output", partition=1)
        producer.send_offsets_to_transaction(
            [confluent_kafka.TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), WITHIN_S
        )
        if commit:
            producer.commit_transaction(WITHIN_S)
        else:
            producer.flush(WITHIN_S)
            producer.abort_transaction(WITHIN_S)

    commit_offset(5, commit=True)
    assert consumer.committed([partition], WITHIN_S)[0].offset == 5
    commit_offset(9, commit=False)
    assert consumer.committed([partition], WITHIN_S)[0].offset == 5
    commit_offset(7, commit=True)
    assert consumer.committed([partition], WITHIN_S)[0].offset == 7
    consumer.close()


def test_transaction_that_times_out_is_aborted_and_its_producer_fenced(
    new_node: Callable[..., NodeProcess], topic: str
) -> None:
    node = new_node(transaction_abort_timed_out_transaction_cleanup_interval_ms=200)
    node.start()
    create_topic(node.bootstrap, topic)
    producer = new_producer(node.bootstrap, topic, **{"transaction.timeout.ms": 1_000})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    producer.flush(WITHIN_S)
    other = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})
    other.produce(topic, b"after it", partition=0)
    other.flush(WITHIN_S)
    until = time.monotonic() + WITHIN_S
    while read(node.bootstrap, topic) != ["after it"]:
        assert time.monotonic() < until, "the transaction is still open"

    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(WITHIN_S)
    assert read(node.bootstrap, topic) == ["after it"]


def test_transactions_survive_a_restart(new_node: Callable[..., NodeProcess], topic: str) -> None:
    """After a kill of the node, an open transaction can be committed, and an aborted one remains hidden."""
    node = new_node(transaction_state_log_num_partitions=2)
    node.start()
    create_topic(node.bootstrap, topic)
    producer = new_producer(node.bootstrap, topic)
    producer.init_transactions(WITHIN_S)
    transact(producer, topic, ["committed"], commit=True)
    transact(producer, topic, ["aborted"], commit=False)
    producer.begin_transaction()
    producer.produce(topic, b"before the kill", partition=0)
    producer.flush(WITHIN_S)
    node.kill()
    node.start()
    producer.produce(topic, b"after the kill", partition=0)
    producer.commit_transaction(WITHIN_S)

    assert read(node.bootstrap, topic) == ["after the kill", "before the kill", "committed"]


def test_aiokafka_commits_and_aborts(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)

    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=brokers, transactional_id=topic)
        await producer.start()
        try:
            for value in (b"committed", b"aborted", b"committed too"):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value, partition=0)
                await (producer.abort_transaction() if value == b"aborted" else producer.commit_transaction())
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=brokers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([AiokafkaPartition(topic, 0)])
            return [(await asyncio.wait_for(consumer.getone(), WITHIN_S)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == [b"committed", b"committed too"]


def test_aiokafka_is_fenced_by_its_second_instance(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)

    async def run() -> None:
        first, second = (aiokafka.AIOKafkaProducer(bootstrap_servers=brokers, transactional_id=topic) for _ in "12")
        await first.start()
        try:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"of a zombie", partition=0)
            await second.start()
            async with second.transaction():
                await second.send_and_wait(topic, b"of the second", partition=0)
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        finally:
            await second.stop()
            await first.stop()

    asyncio.run(run())
    assert read(brokers, topic) == ["of the second"]


def test_aiokafka_commits_offsets_with_its_transactions(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)
    partition = AiokafkaPartition(topic, 0)

    async def run() -> list[int | None]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=brokers, transactional_id=topic)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=brokers, group_id=topic, enable_auto_commit=False)
        await producer.start()
        await consumer.start()
        committed = []
        try:
            consumer.assign([partition])
            for offset, commit in ((5, True), (9, False), (7, True)):
                await producer.begin_transaction()
                await producer.send_offsets_to_transaction({partition: offset}, topic)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
                # Markers are written after the answer to the producer, and aiokafka does not ask for stable offsets.
                until = time.monotonic() + WITHIN_S
                expected = offset if commit else committed[-1]
                while (found := await consumer.committed(partition)) != expected:
                    assert time.monotonic() < until, f"{found} is committed, not {expected}"
                committed.append(found)
        finally:
            await consumer.stop()
            await producer.stop()
        return committed

    assert asyncio.run(run()) == [5, 5, 7]


def test_transaction_of_aiokafka_that_times_out_is_aborted(new_node: Callable[..., NodeProcess], topic: str) -> None:
    node = new_node(transaction_abort_timed_out_transaction_cleanup_interval_ms=200)
    node.start()
    create_topic(node.bootstrap, topic)

    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.bootstrap, transactional_id=topic, transaction_timeout_ms=1_000
        )
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"late", partition=0)
            other = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})
            other.produce(topic, b"after it", partition=0)
            other.flush(WITHIN_S)
            until = time.monotonic() + WITHIN_S
            while await asyncio.to_thread(read, node.bootstrap, topic) != ["after it"]:
                assert time.monotonic() < until, "the transaction is still open"
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
        finally:
            await producer.stop()

    asyncio.run(run())
    assert read(node.bootstrap, topic) == ["after it"]


def test_kafka_python_commits_and_aborts(brokers: str, topic: str) -> None:
    create_topic(brokers, topic)
    producer = KafkaProducer(bootstrap_servers=brokers, transactional_id=topic)
    producer.init_transactions()
    for value in (b"committed", b"aborted", b"committed too"):
        producer.begin_transaction()
        producer.send(topic, value, partition=0).get(WITHIN_S)
        if value == b"aborted":
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=brokers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=WITHIN_S * 1000,
    )
    consumer.assign([KafkaPythonPartition(topic, 0)])
    assert [next(consumer).value for _ in range(2)] == [b"committed", b"committed too"]
    consumer.close()
